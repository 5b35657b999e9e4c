"""Each error can be caught as ours and as a built-in one."""

from lifesafe import errors

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


def test_every_error_is_ours_and_a_builtin() -> None:
    ours = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    assert ours.keys() == {*BUILTINS, "LifesafeError", "GuaranteeWarning"}
    for name, builtin in BUILTINS.items():
        assert issubclass(ours[name], errors.LifesafeError)
        assert issubclass(ours[name], builtin)
        assert str(ours[name]("Got 1.")) == "Got 1."


def test_the_warning_is_a_warning_and_no_error() -> None:
    assert issubclass(errors.GuaranteeWarning, UserWarning)
    assert not issubclass(errors.GuaranteeWarning, errors.LifesafeError)
