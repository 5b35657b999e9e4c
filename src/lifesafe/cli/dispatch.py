"""Find the command that the words name, run it, and turn what it raises into a message and an exit code."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import TextIO

from lifesafe._config import nearest
from lifesafe.cli.words import shell_words
from lifesafe.console.prompts import CLOSED_PIPE, FAILED, INTERRUPTED, OK, say
from lifesafe.errors import ConfigError, GuaranteeWarning, LifesafeError

_HELP = ("-h", "--help")

COMMANDS = {
    "demo": ("cli.lifetime:demo", "Live a whole life on the embedded task, in a minute or two."),
    "tasks": ("cli.tasks:tasks", "List the tasks, their sizes, limits and data."),
    "data fetch": ("cli.data:fetch", "Download the public data of tasks."),
    "data check": ("cli.data:check", "Check a data file before a policy learns from it."),
    "data summary": ("cli.data:summary", "Print how many episodes a data file has, and their returns."),
    "data plot": ("cli.data:plot", "Draw reward against cost of the episodes in a data file."),
    "data collect": ("lab.commands.learning:collect", "Make a dataset in simulation."),
    "train": ("cli.learning:train", "Train a policy from logged data."),
    "evaluate": ("cli.learning:evaluate", "Run a trained policy in simulation; print its returns."),
    "run": ("cli.lifetime:run", "Train a policy from logs, find its best safe target, operate it."),
    "optimize": ("cli.lifetime:optimize", "Find the best safe target of a run, also for other limits."),
    "operate": ("cli.lifetime:operate", "Serve the best target of a run under the watch."),
    "plan": ("cli.plan:plan", "Tell how many real episodes a search will take."),
    "ask": ("cli.real_system:ask", "Print the trial to run now: one target for each episode."),
    "tell": ("cli.real_system:tell", "Record what the episodes of a trial returned."),
    "confirm": ("cli.real_system:confirm", "Resume a search that is held."),
    "retract": ("cli.real_system:retract", "Take back what was told of a trial, because it was wrong."),
    "limits": ("cli.real_system:limits", "Go on with a search under other limits."),
    "export": ("cli.export:export", "Write a policy as files that run without PyTorch."),
    "alignment": ("lab.commands.learning:alignment", "Draw actual returns of a policy against its targets."),
    "report": ("cli.report:report", "Write the report of a run, as a page or a picture."),
    "bench run": ("lab.commands.bench:bench_run", "Run a suite: all tasks, methods, limits and seeds."),
    "bench table": ("lab.commands.bench:bench_table", "Print the table of some results."),
    "bench figure": ("lab.commands.bench:bench_figure", "Draw some results."),
    "journal verify": ("cli.runs:journal_verify", "Check that the record of a run is whole and correct."),
    "journal export": ("cli.runs:journal_export", "Write the events of a run as JSON lines."),
    "theory budget": ("lab.commands.theory:theory_budget", "Tell how many trials Theorem 3 asks for."),
    "theory coverage": ("lab.commands.theory:theory_coverage", "Count broken promises on simulated machines."),
    "theory simulate": ("lab.commands.theory:theory_simulate", "Run the search on one simulated machine."),
}
"""The module (within lifesafe) and function of each command, and its line in the help, the first of its docstring.

A command is imported when it is used. A name of two words is a group and its command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    words = [word for word in given if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("always", GuaranteeWarning)
            code = _dispatch(words)
            sys.stdout.flush()
            return code
    except SystemExit as stop:  # tyro has printed its help or its complaint
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        say(f"\nInterrupted; what is done is kept. To go on: {shlex.join(['lifesafe', *given])}")
        return INTERRUPTED
    except (LifesafeError, OSError) as error:
        if debug:
            traceback.print_exc()
        else:
            say(f"lifesafe: {_message(error)}")
        return FAILED


def _message(error: Exception) -> str:
    """Return what an error says, in the words of the shell."""
    if isinstance(error, OSError) and not isinstance(error, LifesafeError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return shell_words(str(error))


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"lifesafe {version('lifesafe')}")
        return OK
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in COMMANDS:
            return _call(name, words[length:])
    group = words[0] if words and _is_group(words[0]) else ""
    rest = words[1:] if group else words
    if not rest or rest[0] in _HELP:
        print(_overview(group), file=sys.stdout if rest else sys.stderr)
        return OK if rest else FAILED
    name = f"{group} {rest[0]}".strip()
    raise ConfigError(f"Unknown command {name!r}.{nearest(name, COMMANDS)} `lifesafe --help` lists all.")


def _call(name: str, words: list[str]) -> int:
    # Like the commands, what reads their words is imported when one is used: the list of all commands needs no tyro.
    code: int = importlib.import_module("lifesafe.cli.calling").call(name, f"lifesafe.{COMMANDS[name][0]}", words)
    return code


def _is_group(word: str) -> bool:
    return any(name.startswith(f"{word} ") for name in COMMANDS)


def _overview(group: str) -> str:
    """Return the commands with one line each: all, or those of a group."""
    shown = [name for name in COMMANDS if name.startswith(f"{group} " if group else "")]
    width = max(map(len, shown))
    lines = [f"  {name.ljust(width)}  {COMMANDS[name][1]}" for name in shown]
    return "\n".join(
        [
            "usage: lifesafe [--version] [--debug] COMMAND ...",
            "",
            "Provably lifetime safe reinforcement learning: ask a policy only for what is known to be safe.",
            "",
            "commands:",
            *lines,
            "",
            "`lifesafe COMMAND --help` explains a command. --debug shows where an error comes from.",
            "Exit codes: 0 done, 2 an error, 130 interrupted.",
        ]
    )


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"warning: {shell_words(str(message))}")
