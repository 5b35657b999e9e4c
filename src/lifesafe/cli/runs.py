"""The journal of a run."""

from __future__ import annotations

import sys
from typing import Any

from lifesafe._files import write_atomic
from lifesafe.console.arguments import OutFile, Run
from lifesafe.console.progress import progress
from lifesafe.console.prompts import OK, plural, say
from lifesafe.console.tables import print_json
from lifesafe.journal.store import export_lines, journal_path, read_records
from lifesafe.operation import replay


def journal_verify(run: Run, *, chain_only: bool = False, json: bool = False) -> int:
    """Check that the record of a run is whole and correct.

    Its decisions are made again and compared. Every event carries the fingerprint of the one before, so an edited,
    missing or moved event is found. Then all decisions are made again from the recorded returns and compared with
    the recorded ones. Nothing is written; the run may still be going on.

    Examples:
        lifesafe journal verify runs/demo
        lifesafe journal verify runs/demo --json

    Exit codes: 0 sound, 2 not sound, or no journal.

    Args:
        run: Directory of the run.
        chain_only: Check the fingerprints only; do not make the decisions again.
        json: Print the finding as JSON.
    """
    path = journal_path(run)
    with progress("verifying"):
        records = read_records(path)
        optimizer = None if chain_only else replay(records)
    head = records[-1].hash if records else None
    if json:
        found: dict[str, Any] = {"journal": str(path), "sound": True, "events": len(records), "head": head}
        if optimizer is not None:
            found |= {
                "replayed": True,
                "stage": optimizer.stage,
                "trials": len(optimizer.trials),
                "searched": optimizer.history.searched,
                "served": optimizer.history.served,
            }
        print_json(found)
        return OK
    print(f"{path} is sound: {len(records)} events, the last with fingerprint {str(head)[:12]}.")
    if optimizer is not None:
        history = optimizer.history
        print(
            f"Replayed to the same decisions: {plural(len(optimizer.trials), 'trial')} with"
            f" {plural(history.searched, 'episode')}, {plural(history.served, 'episode')} of operation; stage"
            f" {optimizer.stage}."
        )
    return OK


def journal_export(run: Run, *, out: OutFile = None) -> int:
    """Write the events of a run as JSON lines.

    Examples:
        lifesafe journal export runs/demo | jq 'select(.kind == "told") | .body.trial'
        lifesafe journal export runs/demo --out demo.jsonl

    Exit codes: 0 written, 2 an error.

    Args:
        run: Directory of the run.
        out: File to write; standard output unless told.
    """
    lines = "".join(f"{line}\n" for line in export_lines(journal_path(run)))
    if out is None:
        sys.stdout.write(lines)
    else:
        write_atomic(out, lines)
        say(f"Wrote {lines.count(chr(10))} events to {out}")
    return OK
