"""Carrying blocking iterators of bytes over to async responses."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async


async def in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, each produced in a thread; closes the iterator when the client goes away."""
    following = sync_to_async(lambda: next(chunks, None), thread_sensitive=False)
    close = getattr(chunks, "close", lambda: None)
    try:
        while (chunk := await following()) is not None:
            yield chunk
    finally:
        await sync_to_async(close, thread_sensitive=False)()
