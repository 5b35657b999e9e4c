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
