"""The checker behind `--jaxtyping-packages`: arrays against their annotated shapes, and nothing else.

Ordinary types are mypy's business. Checked here too, they would get in the way of tests that give wrong
values on purpose to see them refused, and would refuse an int where a float is meant.
"""

import typing
from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import AbstractArray


def mentions_array(hint: Any) -> bool:
    is_array = isinstance(hint, type) and issubclass(hint, AbstractArray)
    return is_array or any(mentions_array(part) for part in typing.get_args(hint))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with those of its arguments and results checked that are annotated as arrays."""
    hints = function.__annotations__
    function.__annotations__ = {name: hint for name, hint in hints.items() if mentions_array(hint)}
    return beartype(function) if function.__annotations__ else function
