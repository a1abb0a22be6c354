"""Take notifications; give them to the hosts of subscribers, in order, each until it is accepted."""
