"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

LOOK_AGAIN = 0.02


def eventually(look: Callable[[], _T], within: float = 30.0) -> _T:
    """What `look` returns once that is true; fails when it is not `within` seconds."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing to see within {within:g} s"
        time.sleep(LOOK_AGAIN)
    return found
