"""A whole document about some results: the table, the summary and, if wanted, the published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from lifesafe.lab.benchmark.published import SOURCE, published_for
from lifesafe.lab.benchmark.results import Cells, Row
from lifesafe.lab.benchmark.summaries import summary_text
from lifesafe.lab.benchmark.tables import Format, csv_text, table_text

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>lifesafe: comparison</title>
<style>
body {{ overflow-x: auto; font: 15px/1.5 system-ui, sans-serif; color: #16202b; margin: 2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .2rem .7rem; text-align: left; white-space: nowrap; }}
thead th {{ border-bottom: 2px solid #57646f; padding-top: 1.2rem; }}
tbody tr:has(> th) > * {{ border-top: 1px solid #dde3e8; }}
.unsafe {{ color: #b3261e; }}
p {{ max-width: 55rem; }}
</style>
</head>
<body>
{body}</body>
</html>
"""
_HEADINGS = {"md": f"# {SOURCE}\n\n", "tex": f"% {SOURCE}\n", "html": f"<h2>{SOURCE}</h2>\n"}


def document(rows: Sequence[Row], form: Format, *, published: bool = False) -> str:
    """Return everything about some rows as one text, the same for the same rows.

    Args:
        rows: The results.
        form: Markdown, LaTeX, CSV or a page of HTML.
        published: Whether the paper's numbers for these tasks and limits follow.
    """
    table = Cells.of(rows)
    if form == "csv":
        return csv_text({"here": table} | ({"paper": published_for(table)} if published else {}))
    parts = [table_text(table, form), summary_text(rows, form)]
    if published:
        parts.append(_HEADINGS[form] + table_text(published_for(table), form))
    text = "\n".join(part for part in parts if part)
    return _PAGE.format(body=text) if form == "html" else text
