"""Look a dataset over before anybody learns from it.

`check` returns findings and never raises for what the data hold; `check_in_child` does the same in a process of its
own, for files that nobody vouches for.
"""

from lifesafe.data.check.checks import check
from lifesafe.data.check.finding import Finding
from lifesafe.data.check.guarded import check_in_child

__all__ = ["Finding", "check", "check_in_child"]
