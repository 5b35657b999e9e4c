"""Each error can be caught as ours and as a built-in one."""

import pytest

from lifesafe import errors
from lifesafe.errors import GuaranteeWarning, LifesafeError

BUILTINS = {
    "ConfigError": ValueError,
    "DatasetError": ValueError,
    "UnknownTaskError": LookupError,
    "DependencyError": ImportError,
    "TrialError": ValueError,
    "NoSafeTargetError": RuntimeError,
    "JournalError": RuntimeError,
    "EpisodeError": RuntimeError,
    "CheckpointError": RuntimeError,
}


@pytest.mark.parametrize(("name", "builtin"), BUILTINS.items())
def test_an_error_is_ours_and_a_builtin(name: str, builtin: type[Exception]) -> None:
    error = getattr(errors, name)
    assert issubclass(error, LifesafeError)
    assert issubclass(error, builtin)
    assert error.__doc__
    assert str(error("Got 1.")) == "Got 1."


def test_no_error_is_left_out() -> None:
    ours = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert ours == {*BUILTINS, "LifesafeError", "GuaranteeWarning"}


def test_the_warning_is_a_warning_and_no_error() -> None:
    assert issubclass(GuaranteeWarning, UserWarning)
    assert not issubclass(GuaranteeWarning, LifesafeError)
