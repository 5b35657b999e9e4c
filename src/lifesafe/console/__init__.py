"""What the commands share: kinds of arguments, exit codes, and how progress, tables and JSON are shown.

Each module is imported by itself, since Rich and tyro take their time to load.
"""
