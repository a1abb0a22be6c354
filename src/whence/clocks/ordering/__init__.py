"""Schiper-Eggli-Sandoz: messages handled in causal order, with a failure policy."""
