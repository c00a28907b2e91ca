"""Conditional and partial answers, by RFC 9110: entity tags, and one range of bytes."""

import re
from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.http import parse_etags

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.ASCII)


class Unsatisfiable(Exception):
    """The range begins where nothing is any more."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Bytes from `start` up to `end` (exclusive), of `size` in all."""

    start: int
    end: int
    size: int

    @property
    def content_range(self) -> str:
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


def is_known(request: HttpRequest, etag: str) -> bool:
    """Whether the client has what carries this (strong) tag already."""
    given = request.headers.get("If-None-Match")
    if given is None:
        return False
    tags = [tag.removeprefix("W/") for tag in parse_etags(given)]
    return etag in tags or "*" in tags


def wanted(request: HttpRequest, size: int, etag: str) -> Span | None:
    """The part that is asked for; None for all of it. Raises Unsatisfiable.

    Several ranges, and what is no range at all, are answered by the whole, as the RFC allows.
    """
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    if match is None or request.headers.get("If-Range", etag) != etag:
        return None
    first, last = match.groups()
    if first:
        start, end = int(first), int(last) + 1 if last else size
        if last and end <= start:
            return None
    elif last:
        start, end = max(size - int(last), 0), size
    else:
        return None
    if start >= size or (not first and int(last) == 0):
        raise Unsatisfiable
    return Span(start=start, end=min(end, size), size=size)
