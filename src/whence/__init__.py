"""whence: what could have caused this event?

An observer turns reports into deliveries, and never says "before" when it cannot know.
"""

__version__ = "0.1.0"
