"""A timeline as it is read: events in order, under the execution that they belong to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from jobs.selectors.events import EventView
from jobs.states import EventKind

FOLDED_FROM = 4
"""So many checkpoints in a row are told as one line that opens."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One event, or a run of like ones of which `event` is the last."""

    event: EventView
    folded: Sequence[EventView] = ()


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Consecutive events of one execution, or of none; `again` where that execution had an earlier stretch."""

    execution: str | None
    lines: Sequence[Line]
    again: bool

    @property
    def key(self) -> str:
        """Names the stretch within its page."""
        return f"stretch-{self.lines[0].event.seq}"


def stretches(events: Sequence[EventView]) -> list[Stretch]:
    """Events in the order of their numbers, so that what came late stands where it came."""
    found: list[Stretch] = []
    for execution, group in groupby(events, key=lambda event: event.execution):
        again = execution is not None and any(earlier.execution == execution for earlier in found)
        found.append(Stretch(execution=execution, lines=list(_lines(list(group))), again=again))
    return found


def _lines(events: Sequence[EventView]) -> Iterator[Line]:
    for kind, group in groupby(events, key=lambda event: event.kind):
        run = list(group)
        if kind == EventKind.CHECKPOINT_SAVED and len(run) >= FOLDED_FROM:
            yield Line(event=run[-1], folded=run)
        else:
            yield from (Line(event=event) for event in run)
