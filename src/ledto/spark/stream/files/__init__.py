"""Take a folder that files are put into; give a stream of frames that replays exactly.

The payload of one frame::

    {"name":"a.jsonl","location":"/logs/a.jsonl","size_bytes":812,"modified_ns":1700000000000000000,
     "start":0,"stop":null,"lines_before":0}
"""
