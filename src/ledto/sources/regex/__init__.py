r"""Search with regular expressions of users, JavaScript's and Python's, and stop those that take too long.

`javascript` has the expressions of ShiViz, and `timed` those of mappings. One literal expression takes text and gives the
parts that it names::

    (?<host>\S*) (?<clock>\{.*\})\n(?<event>.*)
"""
