"""Take what sources read; give reports of events, as records and as columns, for everything else to work on.

`schema.REPORTS` are the columns of a table of reports; `report.Report` is one stamped message::

    Report(process=3, seq=17, r=120, c=2, kn=(4, 1, 0), arrival=127)
"""
