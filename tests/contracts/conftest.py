"""What the contracts are tried on: every method, with every number of costs that it knows."""

import pytest

from small_methods import case_name, cases


@pytest.fixture(params=cases(), ids=case_name)
def case(request: pytest.FixtureRequest) -> tuple[str, int]:
    method, costs = request.param
    return method, costs


@pytest.fixture
def costs(case: tuple[str, int]) -> int:
    return case[1]
