"""Pictures of a run, read from its directory.

Import from the modules: `history` and `simulation` are quick, `figures` loads matplotlib.
"""
