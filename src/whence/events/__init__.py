"""Takes stamps; gives events and reports: the records that everything after the clocks works on."""
