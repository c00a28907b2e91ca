"""Lines of a metrics file as points and progress. The file is a script's: nothing in it is trusted."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.commands.metrics import Point, Progress

LONGEST_KEY = 100
MOST_KEYS = 100
LONGEST_LINE = 64 * 1024
LARGEST_STEP = 2**63 - 1
SMOOTHING = 0.3


@dataclass(frozen=True, kw_only=True)
class Report:
    """What some lines said."""

    points: list[Point]
    progress: Progress


class Reader:
    """Reads line after line and remembers the latest step, for lines without one and for the rate."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._total: int | None = None
        self._rate: float | None = None
        self._last: tuple[int, float] | None = None

    @property
    def step(self) -> int | None:
        return self._step

    def read(self, lines: Iterable[bytes]) -> Report:
        """Take the numbers out of `lines`; what is no JSON object, or no number, is passed over."""
        at = datetime.now(UTC)
        points = [point for line in lines for point in self._points(_parsed(line), at)]
        self._measure()
        return Report(points=points, progress=Progress(step=self._step, total=self._total, rate=self._rate))

    def _points(self, entry: dict[str, Any], at: datetime) -> list[Point]:
        step, total = _whole(entry.pop("step", None)), _whole(entry.pop("total", None))
        if step is not None:
            self._step = step
        if total is not None:
            self._total = total
        numbers = [(key, _number(value)) for key, value in list(entry.items())[:MOST_KEYS]]
        return [
            Point(key=key, step=self._step or 0, value=value, at=at)
            for key, value in numbers
            if value is not None and 0 < len(key) <= LONGEST_KEY and key.isprintable()
        ]

    def _measure(self) -> None:
        """Smooth the steps per second over what came since the last look."""
        if self._step is None:
            return
        now = time.monotonic()
        if self._last is not None and self._step > self._last[0] and now > self._last[1]:
            rate = (self._step - self._last[0]) / (now - self._last[1])
            self._rate = rate if self._rate is None else SMOOTHING * rate + (1 - SMOOTHING) * self._rate
        if self._last is None or self._step != self._last[0]:
            self._last = (self._step, now)


def _parsed(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        return {}
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    if number is None or number != number or not 0 <= number <= LARGEST_STEP:
        return None
    return min(int(value), LARGEST_STEP)
