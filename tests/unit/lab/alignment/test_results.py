"""What a study keeps on disk comes back as it was, or is refused."""

from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.alignment.results import FILE, Alignment, TargetResult, read_alignment, write_alignment

PART = Alignment(
    task="PointCircle",
    seed=3,
    dataset="ab" * 32,
    config="cd" * 32,
    training=12.5,
    evaluation=3.0,
    points=(
        TargetResult(target=(100.0, 0.0), episodes=((90.0, 1.0), (94.0, 3.0))),
        TargetResult(target=(100.0, 20.0), episodes=((110.0, 18.0), (118.0, 30.0))),
    ),
)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    write_alignment(PART, tmp_path)
    assert read_alignment(tmp_path) == PART


def test_a_point_has_the_mean_of_its_episodes() -> None:
    np.testing.assert_allclose(PART.points[0].mean, [92.0, 2.0])


def test_a_study_that_was_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"alignment\.json.*Has the study been run"):
        read_alignment(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"task": "A"}', "[1, 2]", '{"task": 3}'])
def test_a_damaged_file_is_refused_with_the_way_out(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ConfigError, match="Delete it to run that seed again"):
        read_alignment(tmp_path)
