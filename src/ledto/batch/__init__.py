"""Make a history at once from files: the steps of a run, and the engine that carries them out in this process.

Take inputs (`ledto.sources.inputs`), which hold lines such as::

    {"process": "web", "time": 1700000000000000000, "kind": "send", "sends": "m-5"}

Give the history in a folder, and its manifest. `observe` has the steps in order.
"""
