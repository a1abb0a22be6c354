r"""Read JSON from bytes: by an exact reader, and by quick readers that leave unusual records to it.

Take bytes; give values with their own text, so that no number changes. One literal record, and its members as
`strict.members` gives them::

    {"process": "shop", "price": 1.50}

    {"process": ("shop", '"shop"', '"process"'), "price": (1.5, "1.50", '"price"')}

`strict` is the exact reader of one record, and `documents` walks files of any size. `objects`, `typed` (by msgspec) and
`scanner` (compiled) are the quick readers.
"""
