"""Takes questions over HTTP; gives the documents that the command line prints with ``--json``."""
