import pytest
import torch

from lifesafe.errors import ConfigError
from lifesafe.policies.device import check_device, random_state, set_random_state


def test_the_processor_is_always_there() -> None:
    assert check_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("device", ["cuda:99", "mps"])
def test_a_device_that_is_not_here_is_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=rf'device = \'{device}\' is not here.*Give device="cpu"'):
        check_device(device)


@pytest.mark.parametrize("device", ["gpu", "", "cpu:x", "meta"])
def test_what_is_no_device_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match='give "cpu", "cuda" or "mps"'):
        check_device(device)


def test_the_random_state_comes_back() -> None:
    device = torch.device("cpu")
    state = random_state(device)
    first = torch.rand(3)
    set_random_state(device, state)
    assert torch.equal(torch.rand(3), first)
