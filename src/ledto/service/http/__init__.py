"""Take routers and limits; give one application and its server: tokens, connections, bodies, problems."""
