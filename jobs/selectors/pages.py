"""Keyset pages: each costs the same however far one has paged, and none repeats or skips a row that stays."""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from jobs.errors import Invalid

MAX_LIMIT = 200
BIGGEST = 2**63 - 1
"""The largest number that a bigint column holds."""

Part = int | str | datetime
Row = TypeVar("Row")
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Some items, and the cursor of the page after them where there may be one."""

    items: Sequence[Item]
    next: str | None = None

    def map(self, make: Callable[[Item], Row]) -> "Page[Row]":
        """The same page of something made from each item."""
        return Page(items=[make(item) for item in self.items], next=self.next)


def cut(found: Iterable[Row], limit: int, key: Callable[[Row], Sequence[Part]]) -> Page[Row]:
    """A page of `limit` rows out of a query that asked for one more; `key` is what the next page begins after."""
    rows = list(found)
    if len(rows) <= limit:
        return Page(items=rows)
    return Page(items=rows[:limit], next=encode(*key(rows[limit - 1])))


def encode(*parts: Part) -> str:
    """A cursor that holds `parts`; opaque to whoever carries it."""
    return base64.urlsafe_b64encode(json.dumps(parts, default=str).encode()).rstrip(b"=").decode()


def decode(cursor: str | None, *kinds: type[Part]) -> list[Any] | None:
    """The parts of a cursor, which must be of `kinds`; None without a cursor, Invalid for anything else."""
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return [_part(part, kind) for part, kind in zip(parts, kinds, strict=True)]
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid({"cursor": "This is no cursor of this list; take it from `next` of the page before."}) from error


def _part(part: Any, kind: type[Part]) -> Part:
    if kind is datetime and type(part) is str:
        moment = datetime.fromisoformat(part)
        if moment.tzinfo is not None:
            return moment
    elif type(part) is kind and (part.isprintable() if kind is str else abs(part) <= BIGGEST):
        return part  # type: ignore[no-any-return]
    raise ValueError("a part of another kind")
