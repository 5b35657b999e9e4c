"""Print what happened in a run: every trial with its forecast, then operation. Give its directory."""

import sys

from lifesafe import SafeOptimizer
from lifesafe.journal import read_records
from lifesafe.journal.store import journal_path

records = read_records(journal_path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))  # refuses an edited record
optimizer = SafeOptimizer.replay(records)  # makes every decision again and compares

for tried in optimizer.trials:
    (median, upper), *_ = tried.asked.forecasts[0].costs  # of the first cost at the center
    own = tried.episodes[[point == tried.center for point in tried.points[: len(tried.episodes)]], 1]
    print(
        f"{tried.number:3d} {tried.asked.stage:8} charged {tried.asked.charge:.4f},"
        f" cost at the center {own.mean():5.1f}, forecast {median:.1f}, 95 % below {upper:.1f}"
    )
print("best:", optimizer.best)
for service in optimizer.history.services:
    told = f"{service.episodes} episodes, mean returns {service.means}"
    print("served:", service.target, "for", told, service.alarm or "")
