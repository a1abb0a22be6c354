"""Take questions over HTTP; give the documents that the command line prints with ``--json``."""
