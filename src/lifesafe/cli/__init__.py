"""The command line: parse, call, print. One function per command; its docstring is its help.

A command returns its exit code. Results go to standard output, everything else (progress, warnings, errors)
to standard error, so that `--json` can be piped into another program. Environment variables are read here and nowhere
else in lifesafe.
"""

from lifesafe.cli.dispatch import COMMANDS, main

__all__ = ["COMMANDS", "main"]
