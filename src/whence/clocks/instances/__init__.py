"""Autonomous causality: instances that duplicate and combine and need no names given to them."""
