"""Exported policies act as the trained ones do, where there is neither PyTorch nor lifesafe."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lifesafe
from lifesafe.cli.export import RUN_FILE, beside
from lifesafe.cli.export import export as export_command
from lifesafe.errors import CheckpointError, ConfigError, DependencyError
from lifesafe.lab.baselines import CPQConfig, RvSConfig
from lifesafe.policies import CDTConfig, StoredPolicy, save
from lifesafe.policies.export import TOLERANCE, ServedTarget, export, exportable
from lifesafe.policies.export.graph import onnx_bytes
from lifesafe.policies.export.stepper import Stepper
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from small_cdt import random_dataset, small_config

KINDS: dict[str, tuple[CDTConfig | RvSConfig, int]] = {  # and the number of costs
    "cdt": (small_config(), 1),
    "cdt-two-costs": (small_config(layers=1), 2),
    "rvs": (RvSConfig(width=16), 2),
}
FURTHER: dict[str, tuple[CDTConfig | RvSConfig, int]] = {
    "cdt-one-step": (small_config(context=1), 2),
    "rvs-timeless": (RvSConfig(width=16, time=False), 1),
}
KNOWN = 20  # steps of the longest episode in the data
STEPS = 26


def shaken(kind: str) -> StoredPolicy:
    """A policy whose weights are far from their start, so that everything it sees matters."""
    config, costs = (KINDS | FURTHER)[kind]
    policy = config.build(random_dataset(costs=costs), seed=0).policy()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in policy.tensors().items():
            tensor += (0.1 if "head" not in name else 0.05) * torch.randn(tensor.shape, generator=random)
    return policy


@pytest.fixture(scope="module")
def policies() -> dict[str, StoredPolicy]:
    return {kind: shaken(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def exports(policies: dict[str, StoredPolicy], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("exports")
    return {kind: export(policy, place / kind).directory for kind, policy in policies.items()}


@pytest.fixture
def exported(exports: dict[str, Path], tmp_path: Path) -> Path:
    """A copy, to be tampered with."""
    return Path(shutil.copytree(exports["rvs"], tmp_path / "robot"))


@pytest.fixture
def stepper(exports: dict[str, Path]) -> Stepper:
    """One with 4 observations, 2 actions and 2 costs, before its first step."""
    stepper = Stepper(exports["cdt-two-costs"])
    stepper.reset((3.0, 2.0, 4.0))
    return stepper


def world(costs: int, rows: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "observations": random.normal(size=(STEPS, rows, 4)),
        "rewards": random.normal(size=(STEPS, rows)),
        "costs": random.integers(0, 2, size=(STEPS, rows, costs)).astype(float),
    }


def targets(costs: int, rows: int = 3) -> list[Returns]:
    return [Returns(3.0 + row, [2.0 + 4.0 * row + k for k in range(costs)]) for row in range(rows)]


def trained_actions(policy: StoredPolicy, asked: list[Returns], seen: dict[str, np.ndarray]) -> np.ndarray:
    actor, actions = policy.actor(asked), []
    for step in range(STEPS):
        actions.append(actor.act(seen["observations"][step]))
        actor.observe(seen["rewards"][step], seen["costs"][step])
    return np.array(actions)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FURTHER)
def test_further_kinds_can_be_exported(kind: str, tmp_path: Path) -> None:
    assert export(shaken(kind), tmp_path / "robot").comparison.largest_difference < TOLERANCE / 10


@pytest.mark.parametrize("kind", KINDS)
def test_one_episode_is_stepped_without_rows(
    kind: str, policies: dict[str, StoredPolicy], exports: dict[str, Path]
) -> None:
    costs = KINDS[kind][1]
    seen, asked = world(costs, rows=1), targets(costs, rows=1)
    expected = trained_actions(policies[kind], asked, seen)
    assert np.ptp(expected) > 0.1
    stepper = Stepper(exports[kind])
    for _ in range(2):  # a second episode begins as the first did
        stepper.reset(list(asked[0]))
        for step in range(STEPS):
            action = stepper.act(seen["observations"][step, 0])
            np.testing.assert_allclose(action, expected[step, 0], rtol=0, atol=TOLERANCE / 10)
            action *= 40.0  # newton meters; what is remembered is another array
            cost = seen["costs"][step, 0]
            stepper.observe(seen["rewards"][step, 0], cost if costs > 1 else cost[0])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_restart_and_stand_still_as_those_of_the_policy(
    kind: str, policies: dict[str, StoredPolicy], exports: dict[str, Path]
) -> None:
    costs = KINDS[kind][1]
    seen, asked = world(costs), targets(costs)
    actor, stepper = policies[kind].actor(asked), Stepper(exports[kind])
    stepper.reset([list(target) for target in asked])
    for step in range(STEPS):
        if step == 7:
            actor.restart([asked[0]], np.array([2]))
            stepper.reset([list(asked[0])], rows=[2])
        rows = None if step < 3 else [2, 0] if step % 3 else [1]
        moved = [0, 1, 2] if rows is None else rows
        named = None if rows is None else np.array(rows)
        observations = seen["observations"][step][moved]
        actions, expected = stepper.act(observations, rows), actor.act(observations, named)
        assert actions.dtype == np.float32
        np.testing.assert_allclose(actions, expected, rtol=0, atol=TOLERANCE / 10)
        actor.observe(seen["rewards"][step][moved], seen["costs"][step][moved], named)
        stepper.observe(seen["rewards"][step][moved], seen["costs"][step][moved], rows)
    assert len(set(stepper.times.tolist())) == 3


SCRIPT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("lifesafe", "torch", "onnx", "jaxtyping", "scipy"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Refuse())
sys.path = [path for path in sys.path if "lifesafe" not in path]
import json
from stepper import Stepper

stepper, seen, actions = Stepper("."), json.load(open("seen.json")), []
stepper.reset(seen["target"])
for observation, reward, costs in zip(seen["observations"], seen["rewards"], seen["costs"]):
    actions.append(stepper.act(observation).tolist())
    stepper.observe(reward, costs)
print(json.dumps(actions))
"""


@pytest.mark.parametrize("kind", ["cdt", "rvs"])
def test_a_copied_export_runs_without_lifesafe_and_torch(
    kind: str, policies: dict[str, StoredPolicy], exports: dict[str, Path], tmp_path: Path
) -> None:
    costs = KINDS[kind][1]
    seen, asked = world(costs, rows=1), targets(costs, rows=1)
    robot = Path(shutil.copytree(exports[kind], tmp_path / "robot"))
    (robot / "main.py").write_text(SCRIPT)
    told = {name: values[:, 0].tolist() for name, values in seen.items()}
    (robot / "seen.json").write_text(json.dumps({"target": list(asked[0]), **told}))
    done = subprocess.run([sys.executable, "main.py"], cwd=robot, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = trained_actions(policies[kind], asked, seen)[:, 0]
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=0, atol=TOLERANCE / 10)


def test_a_directory_holds_three_files_and_what_they_are(
    policies: dict[str, StoredPolicy], exports: dict[str, Path]
) -> None:
    directory = exports["cdt"]
    assert sorted(path.name for path in directory.iterdir()) == ["policy.json", "policy.onnx", "stepper.py"]
    about = json.loads((directory / "policy.json").read_text())
    assert about["sizes"] == {"observations": 4, "actions": 2, "costs": 1}
    assert (about["policy"], about["horizon"], about["clamped"]) == ("CDT", KNOWN, True)
    assert about["state"] == {f"layer_{index}": {"dtype": "float32", "shape": [2, 3, 16]} for index in range(2)}
    assert 0 < about["verified"]["largest_difference"] < about["verified"]["tolerance"] == TOLERANCE
    assert about["verified"]["steps"] > 2 * KNOWN
    assert about["verified"]["episodes"] == 5
    assert json.loads((exports["rvs"] / "policy.json").read_text())["clamped"] is False
    source = Path(lifesafe.__file__).parent / "policies" / "export" / "stepper.py"
    assert (directory / "stepper.py").read_bytes() == source.read_bytes()
    graph = (directory / "policy.onnx").read_bytes()
    assert b".py" not in graph  # it does not tell where it was made
    assert str(Path.home()).encode() not in graph


def test_exporting_leaves_the_policy_as_it_was(policies: dict[str, StoredPolicy], exports: dict[str, Path]) -> None:
    seen, asked = world(1), targets(1)
    np.testing.assert_array_equal(
        trained_actions(policies["cdt"], asked, seen), trained_actions(shaken("cdt"), asked, seen)
    )


def test_what_is_there_is_not_overwritten(exported: Path) -> None:
    before = (exported / "policy.json").read_bytes()
    with pytest.raises(CheckpointError, match="exists already; give another directory"):
        export(shaken("rvs"), exported)
    assert (exported / "policy.json").read_bytes() == before


def test_an_export_that_acts_differently_is_not_written(tmp_path: Path) -> None:
    policy, other = shaken("rvs"), shaken("rvs")
    other.tensors()["layers.0.bias"][0] += 0.01
    policy.actor = other.actor  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match=r"acts differently .* more than 0\.0001\. Nothing was written"):
        export(policy, tmp_path / "robot")
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    policy = shaken("rvs")
    policy.tensors()["layers.0.bias"][0] = np.nan
    with pytest.raises(CheckpointError, match="not finite"):
        export(policy, tmp_path / "robot")


def test_a_policy_that_does_not_say_how_is_not_exported(tmp_path: Path) -> None:
    policy = CPQConfig(limits=(3.0,), width=8, vae_width=8).build(random_dataset(), seed=0).policy()
    with pytest.raises(CheckpointError, match=r"class CPQ cannot be exported: the class has no method exportable\(\)"):
        export(policy, tmp_path / "robot")


class Moody(torch.nn.Module):
    """A step that no graph can express."""

    def forward(
        self, observations: torch.Tensor, returns: torch.Tensor, actions: torch.Tensor, times: torch.Tensor
    ) -> tuple[torch.Tensor]:
        return (actions if observations.sum() > 0 else -actions,)


@pytest.mark.slow  # PyTorch tries hard
def test_a_step_that_no_graph_expresses_is_refused(policies: dict[str, StoredPolicy]) -> None:
    with pytest.raises(CheckpointError, match=r"Moody cannot be expressed in ONNX: .*data-dependent"):
        onnx_bytes(dataclasses.replace(exportable(policies["rvs"]), step=Moody()))


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_the_extra(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DependencyError, match=r'Exporting a policy needs ONNX.*: pip install "lifesafe\[export\]"'):
        export(shaken("rvs"), tmp_path / "robot")
    assert not list(tmp_path.iterdir())


def test_calls_out_of_order_are_refused(exports: dict[str, Path]) -> None:
    stepper = Stepper(exports["cdt"])
    for call in (lambda: stepper.act(np.zeros(4)), lambda: stepper.observe(1.0, 0.0)):
        with pytest.raises(ValueError, match="No episode has begun: call reset with a target first"):
            call()
    stepper.reset((3.0, 2.0))
    for _ in range(2):
        with pytest.raises(ValueError, match="observe was called before act"):
            stepper.observe(1.0, 0.0)
        stepper.act(np.zeros(4))
        with pytest.raises(ValueError, match="act was called twice: first call observe"):
            stepper.act(np.zeros(4))
        stepper.observe(1.0, 0.0)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3), r"observation must have shape \(4,\), as in the data; got shape \(3,\)"),
        (np.zeros((1, 4)), r"observation must have shape \(4,\)"),
        (0.0, r"got shape \(\)"),
        ([0.0, np.nan, 0.0, 0.0], r"observation must be finite; got \[0.0, nan, 0.0, 0.0\]"),
        ([0.0, np.inf, 0.0, 0.0], "must be finite"),
        ([1e300] * 4, "The policy has no finite action for observation .*stop the episode"),
    ],
)
def test_a_bad_observation_is_refused_and_changes_nothing(stepper: Stepper, observation: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stepper.act(observation)
    expected = Stepper.act(stepper, np.ones(4))
    stepper.reset((3.0, 2.0, 4.0))
    np.testing.assert_array_equal(stepper.act(np.ones(4)), expected)


@pytest.mark.parametrize(
    ("reward", "costs", "message"),
    [
        ([1.0, 2.0], [0.0, 0.0], r"reward must have shape \(1,\) or \(\), as in the data; got shape \(2,\)"),
        (1.0, 0.0, r"costs must have shape \(2,\), as in the data; got shape \(\)"),
        (1.0, [0.0, 0.0, 0.0], r"costs must have shape \(2,\)"),
        (np.nan, [0.0, 0.0], r"reward must be finite; got nan"),
        (1.0, [0.0, np.inf], r"costs must be finite; got \[0.0, inf\]"),
    ],
)
def test_bad_rewards_and_costs_are_refused_and_change_nothing(
    stepper: Stepper, reward: Any, costs: Any, message: str
) -> None:
    stepper.act(np.zeros(4))
    with pytest.raises(ValueError, match=message):
        stepper.observe(reward, costs)
    stepper.observe(1.0, [1.0, 1.0])
    assert stepper.returns.tolist() == [[2.0, 1.0, 3.0]]
    assert stepper.times.tolist() == [1]


@pytest.mark.parametrize("target", [(3.0, 2.0), 3.0, (3.0, np.nan, 1.0), [], np.zeros((2, 2))])
def test_a_bad_target_is_refused_and_changes_nothing(stepper: Stepper, target: Any) -> None:
    with pytest.raises(ValueError, match=r"target must (have shape .*3|be finite)"):
        stepper.reset(target)
    assert stepper.returns.tolist() == [[3.0, 2.0, 4.0]]


@pytest.mark.parametrize("rows", [[1], [-1], [0, 0], [0.5], [[0]]])
def test_rows_that_are_not_there_are_refused(stepper: Stepper, rows: Any) -> None:
    with pytest.raises(ValueError, match="rows must be different numbers from 0 to 0; got"):
        stepper.act(np.zeros(4), rows)


@pytest.mark.parametrize("name", ["policy.json", "policy.onnx"])
def test_a_missing_or_truncated_file_is_refused(exported: Path, name: str) -> None:
    content = (exported / name).read_bytes()
    for share in (0.0, 0.5, 0.99):
        (exported / name).write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=r"policy\.json is damaged, or not of this export"):
            Stepper(exported)
    (exported / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing\. Copy the whole directory again"):
        Stepper(exported)


def test_a_strange_description_and_the_graph_of_another_policy_are_refused(
    exported: Path, exports: dict[str, Path]
) -> None:
    shutil.copy(exports["cdt"] / "policy.onnx", exported)
    with pytest.raises(ValueError, match=r"policy\.onnx is another file than the one it describes"):
        Stepper(exported)
    strange = {"[]": "damaged", "3": "damaged", "{}": "'format'", '{"format": 1}': "format 1", '{"format": 2}': "lacks"}
    for content, message in strange.items():
        (exported / "policy.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            Stepper(exported)


SERVED = ServedTarget((30.0, 4.0, 1.0), (20.0, 5.0), (4.0, 2.5))


def served(exported: Path, target: ServedTarget) -> Stepper:
    """A stepper that was exported from a life which serves this target."""
    about = json.loads((exported / "policy.json").read_text()) | {"target": dataclasses.asdict(target)}
    (exported / "policy.json").write_text(json.dumps(about))
    return Stepper(exported)


def stops(stepper: Stepper, *costs: tuple[float, float]) -> list[bool]:
    """Whether an episode at the target of the life must be stopped, after each step of these costs."""
    stopped = []
    stepper.reset(stepper.target())
    for cost in costs:
        stepper.act(np.zeros(4))
        stepper.observe(1.0, cost)
        stopped.append(bool(stepper.must_stop()))
    return stopped


def test_the_stepper_asks_for_the_target_of_the_life_and_says_when_an_episode_must_be_stopped(exported: Path) -> None:
    stepper = served(exported, SERVED)
    assert stepper.target().tolist() == [30.0, 4.0, 1.0]
    assert stops(stepper, (3.0, 0.0), (0.5, 2.0), (0.5, 0.0)) == [False, False, True]
    assert stops(stepper, (0.0, 2.5)) == [True]  # another episode has spent nothing
    stepper.reset([stepper.target()] * 2)
    stepper.act(np.zeros((2, 4)))
    stepper.observe([0.0, 0.0], [[1.0, 0.0], [4.0, 0.0]])
    assert np.array_equal(stepper.must_stop(), [False, True])
    assert stops(served(exported, dataclasses.replace(SERVED, stop_at=None)), (1e9, 1e9)) == [False]


def test_an_export_without_a_life_names_no_target(stepper: Stepper) -> None:
    for ask in (stepper.target, stepper.must_stop):
        with pytest.raises(ValueError, match="names no target, as it was not made from a life"):
            ask()


def test_the_command_exports_a_run_and_says_how_to_use_it(
    tmp_path: Path, exports: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    save(shaken("rvs"), tmp_path / "run" / "policy")
    assert export_command(tmp_path / "run") == 0
    written, told = tmp_path / "run" / "export", capsys.readouterr().out
    assert f"Export: {written} (0.0" in told
    assert "Largest difference from the policy: " in told
    assert 'stepper = Stepper("export")' in told
    # A policy that was saved and loaded is the same, and the same policy gives the same graph.
    assert (written / "policy.onnx").read_bytes() == (exports["rvs"] / "policy.onnx").read_bytes()


def test_the_command_exports_a_policy_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(shaken("rvs"), tmp_path / "policy")
    left = tmp_path / "deep" / ".robot.unfinished"  # by an export that was killed
    left.mkdir(parents=True)
    (left / "policy.onnx").write_text("half")
    robot = tmp_path / "deep" / "robot"
    assert export_command(tmp_path / "policy", out=robot, json=True) == 0
    assert [path.name for path in robot.parent.iterdir()] == ["robot"]
    told = json.loads(capsys.readouterr().out)
    assert told["directory"] == str(robot)
    assert told["bytes"] == sum(path.stat().st_size for path in robot.iterdir())
    assert told["largest_difference"] < TOLERANCE
    weights = json.loads((robot / "policy.json").read_text())["weights"]
    assert weights == json.loads((tmp_path / "policy" / "manifest.json").read_text())["files"]["weights.safetensors"]


def searched(directory: Path, stop_at: float | None) -> SafeOptimizer:
    """A life whose search has just ended, but for its training."""
    (directory / RUN_FILE).touch()
    problem = Problem(
        axes={"reward": (100, 500), "cost": (0, 60)},
        starts=[Returns(200, 0)],
        limits=20.0,
        stop_at=None if stop_at is None else (stop_at,),
        largest=(200.0,),
        episodes=40,
    )
    optimizer = SafeOptimizer.open(directory, problem)
    random = np.random.default_rng(0)
    while trial := optimizer.ask():
        returned = [(each.reward, random.poisson(0.1 * each.costs[0] + 1)) for each in trial.targets]  # type: ignore[union-attr]
        optimizer.tell(trial, [Returns(reward, cost) for reward, cost in returned])
    return optimizer


@pytest.mark.parametrize("stop_at", [None, 30.0])
def test_the_command_takes_the_target_of_a_life_along(
    tmp_path: Path, stop_at: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    save(shaken("cdt"), tmp_path / "policy")
    with searched(tmp_path, stop_at) as optimizer:  # and a life that is running does not mind
        assert optimizer.best is not None
        assert export_command(tmp_path, json=True) == 0
        best = optimizer.best.target
        assert isinstance(best, Returns)
        assert not optimizer.history.services  # nothing is served by being exported
    told = json.loads(capsys.readouterr().out)["target"]
    found = {"returns": list(best), "limits": [20.0], "stop_at": None if stop_at is None else [stop_at]}
    assert told == found | {"promise": "trial"}
    assert Stepper(tmp_path / "export").about["target"] == found
    assert export_command(tmp_path, out=tmp_path / "again") == 0
    said = capsys.readouterr().out
    assert (
        f"Target: ({best.reward:.5g}, {best.costs[0]:.5g}), found to keep the limit 20 under the promise trial" in said
    )
    assert "stepper.reset(stepper.target())" in said


def test_a_life_without_a_target_is_exported_without_one_and_what_has_no_policy_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CheckpointError, match="holds no saved policy"):
        export_command(tmp_path)
    problem = Problem(axes={"reward": (100, 500), "cost": (0, 60)}, starts=[Returns(200, 0)], limits=20.0)
    SafeOptimizer.open(tmp_path, problem).close()  # a search by ask and tell
    with pytest.raises(ConfigError, match="your system has the policy, and there is none here to export"):
        export_command(tmp_path)
    assert not (tmp_path / "export").exists()
    save(shaken("cdt"), tmp_path / "policy")
    (tmp_path / RUN_FILE).touch()  # a life now
    assert export_command(tmp_path) == 0
    assert "Target: none; this is no life, or it serves no target." in capsys.readouterr().out
    assert "target" not in Stepper(tmp_path / "export").about


def test_an_export_is_written_beside_what_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "run" / "policy").mkdir(parents=True)
    assert beside(tmp_path / "run") == tmp_path / "run" / "export"
    assert beside(tmp_path / "run" / "policy") == tmp_path / "run" / "policy-export"
