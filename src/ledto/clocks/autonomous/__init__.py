"""Take what instances do when they duplicate and combine; give stamps with names that they choose themselves.

`Instance` gives stamps such as ``notes.1 after {'notes': 2}``: the event's name, and the names used in its past.
`PaperInstance` keeps the paper's form; `AutonomousProcess` has processes and messages.
"""
