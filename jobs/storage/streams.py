"""Iterators of bytes that run on threads of their own."""

import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing
from queue import Full, Queue

from asgiref.sync import sync_to_async

_AHEAD = 8
"""Pieces kept ready; with pieces of objects.CHUNK that is 2 MiB."""
_END = object()


async def in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, each produced in a thread; closes the iterator when the client goes away."""
    # Who goes away while a chunk is being made leaves its thread at work: the iterator is closed after that.
    at_work = threading.Lock()

    def following() -> bytes | None:
        with at_work:
            return next(chunks, None)

    def close() -> None:
        with at_work:
            getattr(chunks, "close", lambda: None)()

    try:
        while (chunk := await sync_to_async(following, thread_sensitive=False)()) is not None:
            yield chunk
    finally:
        await sync_to_async(close, thread_sensitive=False)()


def ahead(pieces: Generator[bytes, None, None]) -> Iterator[bytes]:
    """The same pieces, produced on another thread a few ahead of their use."""
    ready: Queue[object] = Queue(_AHEAD)
    given_up = threading.Event()
    threading.Thread(target=_fill, args=(pieces, ready, given_up), name="ahead", daemon=True).start()
    try:
        while (piece := ready.get()) is not _END:
            if isinstance(piece, BaseException):
                raise piece
            assert isinstance(piece, bytes)
            yield piece
    finally:
        given_up.set()


def _fill(pieces: Generator[bytes, None, None], ready: Queue[object], given_up: threading.Event) -> None:
    end = _END
    try:
        with closing(pieces):
            for piece in pieces:
                if not _offer(piece, ready, given_up):
                    return
    except BaseException as error:  # carried over to the thread that reads
        end = error
    _offer(end, ready, given_up)


def _offer(piece: object, ready: Queue[object], given_up: threading.Event) -> bool:
    while not given_up.is_set():
        try:
            ready.put(piece, timeout=0.2)
            return True
        except Full:
            continue
    return False
