"""The causes of an event as one would find them otherwise: by a recursive query in DuckDB, and by a graph in networkx."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.asking import LAST, opened

if TYPE_CHECKING:
    import duckdb
    import networkx

PLAIN_SQL = f"""
WITH RECURSIVE past(event, steps) AS (
    SELECT cause, 1 FROM edges WHERE effect = $event
    UNION
    SELECT edges.cause, past.steps + 1 FROM past JOIN edges ON edges.effect = past.event WHERE past.steps < {LAST}
)
SELECT DISTINCT event FROM past ORDER BY event DESC LIMIT {LAST}
"""

KEYED_SQL = f"""
WITH RECURSIVE past(event, steps) USING KEY (event) AS (
    SELECT cause, 1 FROM edges WHERE effect = $event
    UNION
    SELECT edges.cause, min(past.steps) + 1 FROM past JOIN edges ON edges.effect = past.event
    WHERE past.steps < {LAST} AND edges.cause NOT IN (SELECT event FROM recurring.past) GROUP BY edges.cause
)
SELECT event FROM past ORDER BY event DESC LIMIT {LAST}
"""

WINDOW_SQL = f"""
WITH RECURSIVE past(event) AS (
    SELECT cause FROM edges WHERE effect = $event AND cause >= $first
    UNION
    SELECT edges.cause FROM past JOIN edges ON edges.effect = past.event
    WHERE edges.effect BETWEEN $first AND $event AND edges.cause >= $first
)
SELECT event FROM past ORDER BY event DESC LIMIT {LAST}
"""


def ask_window(tables: duckdb.DuckDBPyConnection, event: int) -> list[int]:
    """Look at the latest events before it only, and at more of them while too few are causes."""
    window = 4_096
    while True:
        first = max(0, event - window)
        found = tables.execute(WINDOW_SQL, {"event": event, "first": first}).fetchall()
        if len(found) == LAST or first == 0:
            return [cause for (cause,) in found]
        window *= 4


def sql_tables(path: Path, *, along: str = "process") -> duckdb.DuckDBPyConnection:
    """Events by position, and the edges among them, from the stored events alone: our skeleton is not used.

    `along` are the columns whose events follow each other by their clock.
    """
    import duckdb

    tables = duckdb.connect()
    run = next((path / "runs").iterdir())
    tables.execute(
        f"""
        CREATE TABLE events AS
        SELECT
            segments.first_position + rows.file_row_number AS event, dense_rank() OVER (ORDER BY {along}) AS along, rows.sends,
            rows.receives, row_number() OVER (PARTITION BY {along} ORDER BY rows.time) AS seq
        FROM read_parquet('{run}/events-*.parquet', filename = true, file_row_number = true) AS rows
        JOIN read_parquet('{run}/segments-*.parquet') AS segments ON ends_with(rows.filename, segments.events_file)
        """
    )
    tables.execute(
        """
        CREATE TABLE edges AS
        SELECT effect, cause FROM (
            SELECT later.event AS effect, earlier.event AS cause FROM events AS later
            JOIN events AS earlier ON earlier.along = later.along AND earlier.seq = later.seq - 1
            UNION ALL
            SELECT later.event, earlier.event FROM events AS later JOIN events AS earlier ON earlier.sends = later.receives
        ) ORDER BY effect
        """
    )
    return tables


def ask_sql(tables: duckdb.DuckDBPyConnection, sql: str, event: int) -> list[int]:
    return [found for (found,) in tables.execute(sql, {"event": event}).fetchall()]


def graph_of(path: Path, *, along: str = "process") -> networkx.DiGraph:
    """The same edges as `sql_tables`."""
    import networkx

    tables = sql_tables(path, along=along)
    edges = tables.execute("SELECT cause, effect FROM edges").fetchnumpy()
    tables.close()
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(opened(path))))
    graph.add_edges_from(zip(edges["cause"].tolist(), edges["effect"].tolist(), strict=True))
    return graph


def ask_graph(graph: networkx.DiGraph, event: int) -> list[int]:
    import networkx

    return heapq.nlargest(LAST, networkx.ancestors(graph, event))
