"""The searches behind benchmarks/results/real.md are on record, and this version decides as they did."""

import lzma
from pathlib import Path

import pytest

from lifesafe.journal import JOURNAL, read_records
from lifesafe.operation import replay

ROOT = Path(__file__).parents[2]
JOURNALS = sorted((ROOT / "benchmarks/results/real").rglob("*.sqlite.xz"))
QUICK = [path for path in JOURNALS if path.match("seed-0/trial-150-20.*") or path.match("Hopper*/seed-0/total-*-20.*")]


def check(packed: Path, place: Path) -> None:
    path = place / JOURNAL
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    records = read_records(path)
    assert len(replay(records).history.told) > 3


@pytest.mark.parametrize("packed", QUICK, ids=lambda path: "-".join(path.parts[-3:]))
def test_a_search_on_record_is_decided_again(packed: Path, tmp_path: Path) -> None:
    check(packed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [path for path in JOURNALS if path not in QUICK], ids=lambda path: path.name)
def test_every_search_on_record_is_decided_again(packed: Path, tmp_path: Path) -> None:
    check(packed, tmp_path)
