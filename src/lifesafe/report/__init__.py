"""The report of a run: one walk over its record, then charts, then a page, a picture, or a page that follows it."""
