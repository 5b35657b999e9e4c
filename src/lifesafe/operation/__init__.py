"""Operating the chosen target under a monitor: alarms, fallbacks, halt. No PyTorch: any policy may be at work."""

from lifesafe.operation.monitor import Alarm, Monitor, MonitorConfig
from lifesafe.operation.operation import Operation, Verdict

__all__ = ["Alarm", "Monitor", "MonitorConfig", "Operation", "Verdict"]
