"""Find the command that the words name, run it, and turn what it raises into a message and an exit code."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TextIO

import tyro

from lifesafe._config import nearest
from lifesafe.cli.data import check, fetch, plot, summary
from lifesafe.cli.export import export
from lifesafe.cli.learning import alignment, collect, evaluate, train
from lifesafe.cli.lifetime import demo, operate, optimize, run
from lifesafe.cli.plan import plan
from lifesafe.cli.real_system import ask, confirm, limits, retract, tell
from lifesafe.cli.report import report
from lifesafe.cli.runs import journal_export, journal_verify
from lifesafe.cli.settings import shell_words
from lifesafe.cli.tasks import tasks
from lifesafe.console import CLOSED_PIPE, FAILED, INTERRUPTED, OK, say
from lifesafe.errors import ConfigError, GuaranteeWarning, LifesafeError
from lifesafe.lab.commands.bench import bench_figure, bench_plan, bench_run, bench_table
from lifesafe.lab.commands.theory import theory_budget, theory_coverage, theory_simulate

_HELP = ("-h", "--help")

# The commands by name, in the order of the help; a name of two words is a group and its command. A new command
# is one function in the module of its group and one line here.
COMMANDS: dict[str, Callable[..., int]] = {
    "demo": demo,
    "tasks": tasks,
    "data fetch": fetch,
    "data check": check,
    "data summary": summary,
    "data plot": plot,
    "data collect": collect,
    "train": train,
    "evaluate": evaluate,
    "run": run,
    "optimize": optimize,
    "operate": operate,
    "plan": plan,
    "ask": ask,
    "tell": tell,
    "confirm": confirm,
    "retract": retract,
    "limits": limits,
    "export": export,
    "alignment": alignment,
    "report": report,
    "bench run": bench_run,
    "bench plan": bench_plan,
    "bench table": bench_table,
    "bench figure": bench_figure,
    "journal verify": journal_verify,
    "journal export": journal_export,
    "theory budget": theory_budget,
    "theory coverage": theory_coverage,
    "theory simulate": theory_simulate,
}


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
    # The description is given, since tyro's own reading of docstrings leaves out the examples.
    return tyro.cli(
        COMMANDS[name],
        prog=f"lifesafe {name}",
        description=_help(name),
        args=words,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def _help(name: str) -> str:
    return (inspect.getdoc(COMMANDS[name]) or "").partition("\nArgs:")[0]


def _is_group(word: str) -> bool:
    return any(name.startswith(f"{word} ") for name in COMMANDS)


def _overview(group: str) -> str:
    """Return the commands with one line each: all, or those of a group."""
    shown = [name for name in COMMANDS if name.startswith(f"{group} " if group else "")]
    width = max(map(len, shown))
    lines = [f"  {name.ljust(width)}  {_help(name).splitlines()[0]}" for name in shown]
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
