"""Takes answers of a history; gives pages. Pure functions from data to text: no network, no scripts, nothing from elsewhere.

- `whence.web.report`: one incident as one HTML file: the diagram, the events, and what became of the reports.
- `whence.web.incident`: what such a page shows, as a value.
- `whence.web.diagram`: the space-time diagram in it, as SVG.
- `whence.web.spans`: times as a person reads them.
- `whence.web.text`: text from logs, made safe to stand in a page.
- `whence.web.style`: the look, light and dark.
"""
