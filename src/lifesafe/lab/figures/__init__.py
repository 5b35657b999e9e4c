"""Pictures of comparisons and studies, drawn by matplotlib."""

from lifesafe._optional import require

require("matplotlib", name="matplotlib", extra="lab", user="A picture of results")
