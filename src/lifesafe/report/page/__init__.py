"""The report of a run as one HTML page.

Import from the modules: `reading` reads a run, `document` makes the page, `live` serves it while the run goes on.
"""
