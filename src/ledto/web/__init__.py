"""Take an `Incident` or clocks; give one HTML or SVG text.

- `ledto.web.gather`: ask a history for everything that a page about one event shows, as an `Incident`.
- `ledto.web.report`: the page as one HTML file: the diagram, the events, and counts of the reports.
- `ledto.web.diagram`: the space-time diagram in it, as SVG, and times as people write them.
- `ledto.web.clocks_plot`: the clocks of a history as one SVG file.
- `ledto.web.notebook`: an answer, or a history, as a part of a notebook's page.
- `ledto.web.style`: the style sheet, light and dark; escape text from logs.

Each function turns data into text: no network, no scripts, no other files. It takes a value such as
``Ordering("wall clock", messages=7, messages_inverted=2, before_cause=3, pairs=9, delays=None)`` and gives a row of a
table, ``<tr><th scope="row">wall clock</th><td class="number">2</td>...</tr>``.
"""
