"""What a training script may say to Rerail. None of it is required, and outside of Rerail all of it is harmless.

import rerail

for epoch in rerail.progress(range(start, 30)):
    rerail.log(step=epoch, loss=loss)
"""

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

__all__ = ["checkpoint", "log", "progress", "resumed"]

_T = TypeVar("_T")
_lock = threading.Lock()
_last_step: int | None = None
_LOOK_SECONDS = 0.05


def log(step: int | None = None, total: int | None = None, **numbers: float) -> None:
    """Report numbers at a step: `rerail.log(step=3, loss=0.7)`. `total` is the last step to come, where known."""
    entry: dict[str, Any] = {name: _plain(value) for name, value in numbers.items()}
    if step is not None:
        global _last_step
        entry["step"] = _last_step = int(step)
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


def checkpoint(wait: bool = False, timeout: float | None = None) -> bool:
    """Ask for a checkpoint of `output/` as it is now; with `wait`, return once it is stored, or has failed.

    Returns whether it is stored. Without `wait` nobody knows yet, so that is False, as it is after `timeout` seconds
    and outside of Rerail. What is changed in `output/` before the checkpoint is taken may be in it, or may not.
    """
    path = os.environ.get("RERAIL_CHECKPOINT")
    if not path:
        return False
    # One write to a file opened for appending: where it ends is this request's name.
    with open(f"{path}.requests", "ab", buffering=0) as file:
        file.write(b"%s\n" % (b"-" if _last_step is None else str(_last_step).encode()))
        mine = file.tell()
    deadline = None if timeout is None else time.monotonic() + timeout
    while wait and (deadline is None or time.monotonic() < deadline):
        if (outcome := _answer(f"{path}.answers", mine)) is not None:
            return outcome
        time.sleep(_LOOK_SECONDS)
    return False


def _answer(answers: str, mine: int) -> bool | None:
    """The outcome of the first checkpoint that was begun after request `mine`."""
    with open(answers, encoding="ascii") as file:
        for line in file:
            upto, _, outcome = line.partition(" ")
            if line.endswith("\n") and int(upto) >= mine:
                return outcome == "stored\n"
    return None


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
