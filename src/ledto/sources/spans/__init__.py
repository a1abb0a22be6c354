"""Turn the spans of Jaeger, Zipkin and OTLP into rows of reports, and name their processes.

Take a `spans.Span`; give a row for its start, for each event while it ran, and for its end. One literal span, and its
two rows, without columns that are null and those about the file::

    Span(trace="5b8e", key="eee1", process="cart@pod-7", name="GET /cart", start=1000, end=2000, kind="server",
         parent="0a01")

    {"computation": "", "process": "cart@pod-7", "time": 1000, "kind": "receive", "sends": "span 5b8e/eee1",
     "receives": "span 5b8e/0a01", "id": "eee1/start", "name": "GET /cart starts", "line": "5b8e/eee1",
     "line_parent": "5b8e/0a01", "line_phase": "start"}
    {"computation": "", "process": "cart@pod-7", "time": 2000, "kind": "send", "sends": "ledto:answer to 5b8e/0a01",
     "receives": "ledto:answer to 5b8e/eee1", "id": "eee1", "name": "GET /cart ends", "line": "5b8e/eee1",
     "line_phase": "end", "line_since": 1000}
"""
