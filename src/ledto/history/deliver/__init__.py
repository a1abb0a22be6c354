"""Takes a segment and policies; gives the deliveries of its events, and what each order contradicts."""
