"""Take routers and limits; give one application and its server: tokens, connections, bodies, and how problems are answered."""
