"""The tasks by name, and the numbers they are known with."""

import pytest

from lifesafe.errors import ConfigError, UnknownTaskError
from lifesafe.systems import Task, register, task, tasks

# name: observations, actions, horizon, dataset file, lowest and highest return, the paper's starting rewards
PAPER = {
    "AntRun": (33, 8, 200, "SafetyAntRun-v0-150-1816", 0.001767391717990563, 955.4818725585938, (700, 750)),
    "AntCircle": (34, 8, 500, "SafetyAntCircle-v0-200-5728", 0.0177031010389328, 460.7091979980469, (250, 300)),
    "CarCircle": (8, 2, 300, "SafetyCarCircle-v0-100-1450", 3.484419822692871, 534.3060913085938, (400, 475)),
    "DroneRun": (17, 4, 200, "SafetyDroneRun-v0-140-1990", 10.557029724121094, 682.8330078125, (400, 450)),
    "DroneCircle": (18, 4, 300, "SafetyDroneCircle-v0-100-1923", 207.794189453125, 996.38916015625, (700, 720)),
    "AntVelocity": (
        27, 8, 1000, "SafetyAntVelocityGymnasium-v1-250-2249", 6.1519012451171875, 2976.276611328125, (2000, 2300),
    ),
    "HalfCheetahVelocity": (
        17, 6, 1000, "SafetyHalfCheetahVelocityGymnasium-v1-250-2495", 5.7509765625, 2806.93310546875, (2000, 2300),
    ),
    "HopperVelocity": (
        11, 3, 1000, "SafetyHopperVelocityGymnasium-v1-250-2240", 37.05154800415039, 1911.396728515625, (1200, 1500),
    ),
    "Walker2dVelocity": (
        17, 6, 1000, "SafetyWalker2dVelocityGymnasium-v1-300-2729", 18.668498992919922, 3418.223876953125, (2000, 2400),
    ),
}  # fmt: skip
FURTHER = {
    "BallRun": (7, 2, 100, "SafetyBallRun-v0-80-940", 26.339754104614258, 1327.445556640625),
    "BallCircle": (8, 2, 200, "SafetyBallCircle-v0-80-886", 0.38312244415283203, 881.46337890625),
    "CarRun": (7, 2, 200, "SafetyCarRun-v0-40-651", 204.28726196289062, 574.6533203125),
    "SwimmerVelocity": (
        8, 2, 1000, "SafetySwimmerVelocityGymnasium-v1-200-1686", 0.07114458084106445, 238.95831298828125,
    ),
}  # fmt: skip


def numbers(found: Task) -> tuple[object, ...]:
    assert found.reference is not None
    assert found.dataset_file is not None
    return (
        found.observations,
        found.actions,
        found.horizon,
        found.dataset_file.removesuffix(".hdf5"),
        *found.reference,
    )


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_tasks_have_the_public_numbers(name: str) -> None:
    found = task(name)
    assert found.start is not None
    assert (*numbers(found), found.start.reward) == PAPER[name]
    assert (found.limits, found.largest_costs, found.start.cost) == ((20.0,), (1.0,), (0.0, 5.0))


@pytest.mark.parametrize("name", FURTHER)
def test_further_tasks_have_the_public_numbers(name: str) -> None:
    assert numbers(task(name)) == FURTHER[name]
    assert task(name).start is None


def test_these_are_all() -> None:
    assert {each.name for each in tasks()} >= {*PAPER, *FURTHER, "PointCircle"}


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownTaskError, match=r"Unknown task 'CarCirle'\. Did you mean 'CarCircle'\?"):
        task("CarCirle")


def test_limits_can_be_given() -> None:
    assert task("CarCircle", limits=40.0).limits == task("CarCircle", limits=[40.0]).limits == (40.0,)
    assert task("CarCircle").limits == (20.0,)
    with pytest.raises(ConfigError, match="Got 2 limits for 1 costs; give one limit per cost"):
        task("CarCircle", limits=(1.0, 2.0))


def test_a_name_is_given_once() -> None:
    mine = Task(name="Test of registering", make="nowhere:at_all", observations=1, actions=1, horizon=1)
    assert register(mine) is mine
    assert register(mine) is mine
    assert task("Test of registering") is mine
    with pytest.raises(ConfigError, match="There is a task 'Test of registering' already"):
        register(mine.with_limits(3.0))
