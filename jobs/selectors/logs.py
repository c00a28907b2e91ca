"""What scripts printed."""

from dataclasses import dataclass

from django.db.models import Max
from django.db.models.functions import Coalesce

from jobs.models import Execution, LogChunk

MAX_BYTES = 8 * 1024 * 1024
"""The most that one read returns."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some of an execution's output: `next_offset` is where the following piece begins, `stored` how much there is."""

    data: bytes
    next_offset: int
    stored: int


def read(execution: Execution, after: int, limit: int = MAX_BYTES) -> Piece:
    """At most `limit` bytes of output from byte `after` on; nothing where the output is not that long yet."""
    end = min(after + limit, execution.log_bytes)
    data = b"".join(_slices(execution, after, end)) if after < end else b""
    return Piece(data=data, next_offset=after + len(data), stored=execution.log_bytes)


def _slices(execution: Execution, after: int, end: int) -> list[bytes]:
    chunks = LogChunk.objects.filter(execution=execution)
    begin = chunks.filter(offset__lte=after).order_by().values("execution").annotate(last=Max("offset")).values("last")
    wanted = chunks.filter(offset__gte=Coalesce(begin, 0), offset__lt=end).order_by("offset")
    return [bytes(data)[max(after - offset, 0) : end - offset] for offset, data in wanted.values_list("offset", "data")]
