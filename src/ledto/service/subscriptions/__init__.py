"""Takes conditions of subscribers and new deliveries; gives notifications, each with what led to the event."""
