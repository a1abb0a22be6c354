"""What every route shares: the application, limits, tokens, bodies, and how failures are told."""
