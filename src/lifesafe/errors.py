"""Every error and warning that lifesafe raises on purpose.

Each error is also a built-in one, so a caller may catch either. A message says what was found, what is accepted and
what to do about it.
"""


class LifesafeError(Exception):
    """Root of all errors raised on purpose."""


class ConfigError(LifesafeError, ValueError):
    """A setting is unknown, of the wrong type or impossible."""


class DatasetError(LifesafeError, ValueError):
    """A dataset cannot be read or does not hold what it should."""


class UnknownTaskError(LifesafeError, LookupError):
    """No task has the given name."""


class DependencyError(LifesafeError, ImportError):
    """An optional package is needed and not installed."""


class TrialError(LifesafeError, ValueError):
    """A trial, or what was told about it, does not fit the open trials."""


class NoSafeTargetError(LifesafeError, RuntimeError):
    """No target is known to be safe, so nothing may be tried."""


class JournalError(LifesafeError, RuntimeError):
    """The record of a run is missing, damaged, in use, or belongs to another problem."""


class EpisodeError(LifesafeError, RuntimeError):
    """An episode cannot be run: its environment fails again and again, or its policy gives no usable action."""


class CheckpointError(LifesafeError, RuntimeError):
    """A saved policy or training state is missing, incomplete or does not fit."""


class GuaranteeWarning(UserWarning):
    """An assumption of the proof does not hold, or the data speak against it."""
