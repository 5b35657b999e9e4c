"""The record of a run: typed events in one SQLite file, and the facts that follow from them."""

from lifesafe.journal.events import Point
from lifesafe.journal.history import History, Service, Tried
from lifesafe.journal.store import JOURNAL, Journal, Record, read_records

__all__ = ["JOURNAL", "History", "Journal", "Point", "Record", "Service", "Tried", "read_records"]
