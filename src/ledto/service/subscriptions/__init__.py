"""Take conditions of subscribers and new deliveries; give notifications, each with what led to the event."""
