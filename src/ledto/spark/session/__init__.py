"""Take a master; give a Spark session on a Java that was found, started as quickly as possible.

One master: ``"local[*]"``, all cores of this machine.
"""
