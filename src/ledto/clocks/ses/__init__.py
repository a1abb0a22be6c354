"""Schiper-Eggli-Sandoz: messages delivered in causal order, and what happens if one never comes.

`OrderingClock.send` gives a stamp such as ``a<a:2>[b<-a:1]``: the second event of a, before whose delivery b must have
delivered the first. `OrderingClock` and `OrderingObserver` deliver.
"""
