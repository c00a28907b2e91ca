"""What a training script may say to Rerail. None of it is required, and outside of Rerail all of it is harmless.

import rerail

for epoch in rerail.progress(range(start, 30)):
    rerail.log(step=epoch, loss=loss)
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

__all__ = ["log", "progress", "resumed"]

_T = TypeVar("_T")
_lock = threading.Lock()


def log(step: int | None = None, total: int | None = None, **numbers: float) -> None:
    """Report numbers at a step: `rerail.log(step=3, loss=0.7)`. `total` is the last step to come, where known."""
    entry: dict[str, Any] = {name: _plain(value) for name, value in numbers.items()}
    if step is not None:
        entry["step"] = int(step)
    if total is not None:
        entry["total"] = int(total)
    _write(entry)


def progress(steps: Iterable[_T], total: int | None = None) -> Iterator[_T]:
    """Go through `steps` and report how far it is after each. A range's numbers count as the steps themselves.

    So `progress(range(12, 30))` of a resumed script goes on at 13 of 30. Other iterables count from 1, up to
    `total` or their length.
    """
    if isinstance(steps, range) and total is None and steps.step == 1:
        first, total = steps.start, steps.stop
    else:
        first = 0
        if total is None and isinstance(steps, Sized):
            total = len(steps)
    log(step=first, total=total)
    for done, item in enumerate(steps, start=first + 1):
        yield item
        log(step=done, total=total)


def resumed() -> bool:
    """Whether `output/` holds what an earlier attempt saved."""
    return os.environ.get("RERAIL_RESUMED") == "1"


def _plain(value: Any) -> float | int:
    """Numbers of numpy, torch and the like as Python's own; raises TypeError for what is none."""
    if isinstance(value, bool | int | float):
        return value
    return value.item() if hasattr(value, "item") else float(value)


def _write(entry: dict[str, Any]) -> None:
    path = os.environ.get("RERAIL_METRICS")
    if not path or not entry:
        return
    line = json.dumps(entry) + "\n"
    # One write to a file opened for appending: lines of several processes do not mix.
    with _lock, open(path, "a", encoding="utf-8") as file:
        file.write(line)
