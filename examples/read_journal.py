"""What happened in a run, from its journal: every trial with its prediction, and operation. Give its directory."""

import sys
from pathlib import Path

from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import read_events
from lifesafe.report.history import journal_path

path = journal_path(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
events = read_events(path)  # refuses a record that was edited; a writer may be at work
optimizer = SafeOptimizer.replay(events, str(path))  # makes every decision again and compares

predicted = {event.body["trial"]: event.body for event in events if event.kind == "asked"}
for result in optimizer.trials:
    body, mean = predicted[result.trial.number], result.episodes[:, 1].mean()
    print(f"{body['trial']:3d} {body['stage']:8} cost {mean:6.2f}, predicted {body['lower'][1]} to {body['upper'][1]}")
print("best:", optimizer.best)
for kind, body in optimizer.operation:
    if kind != "served":
        print(kind, body)
