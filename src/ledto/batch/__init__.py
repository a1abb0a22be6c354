"""A history made at once from files: the steps of a run, over an engine that carries them out.

Takes inputs (`ledto.sources.inputs`) and a folder; gives the history there. `observe.py` has the steps in order.
"""
