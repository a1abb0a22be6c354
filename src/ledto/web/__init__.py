"""Write answers of a history as HTML and SVG. All functions turn data into text: no network, no scripts, no other files.

- `ledto.web.gather`: ask a history for everything that a page about one event shows.
- `ledto.web.gather`: what such a page shows, as a value.
- `ledto.web.report`: the page as one HTML file: the diagram, the events, and counts of the reports.
- `ledto.web.diagram`: the space-time diagram in it, as SVG.
- `ledto.web.clocks_plot`: the clocks of a history as one SVG file.
- `ledto.web.diagram`: format times for people.
- `ledto.web.style`: escape text from logs.
- `ledto.web.style`: the style sheet, light and dark.

It takes a value such as ``Ordering("wall clock", messages=7, messages_inverted=2, before_cause=3, pairs=9, delays=None)``
and gives a row of a table, ``<tr><th scope="row">wall clock</th><td class="number">2</td>...</tr>``.
"""
