"""The paper's comparison: every task, method, limit and seed, as jobs whose results add up to tables."""

from lifesafe.lab.benchmark.results import Cell, Cells, Row, read_rows

__all__ = ["Cell", "Cells", "Row", "read_rows"]
