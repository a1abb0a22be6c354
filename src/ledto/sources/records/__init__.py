r"""Cut the text of logs into records, by the name of their format. A mapping turns records into events.

Take the lines of a file; give its records as dictionaries. One literal line in the format ``logfmt``, and its record::

    time=2024-05-01T12:00:00Z service=pay level=error msg="card declined" tries=2

    {"time": "2024-05-01T12:00:00Z", "service": "pay", "level": "error", "msg": "card declined", "tries": "2"}

`contract` says what a format is, and `formats` lists them. Values stay text here:
`typed_text` says which of them are numbers.
"""
