"""Doing the same to many things on a few threads."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def each(items: Iterable[T], work: Callable[[T], None], *, threads: int, nice: int = 0) -> None:
    """Call `work` with every item, on that many threads of lower priority by `nice`; raises the first error.

    After an error nothing new is begun. Items are drawn as they are needed, so they may be many.
    """
    remaining = _Shared(items)

    def run() -> None:
        if nice:
            with suppress(OSError):  # threads have priorities of their own on Linux alone
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
        try:
            for item in remaining:
                work(item)
        except BaseException:
            remaining.stop()
            raise

    with ThreadPoolExecutor(threads, thread_name_prefix="storage") as pool:
        runs = [pool.submit(run) for _ in range(threads)]
    for done in runs:
        done.result()


class _Shared(Iterator[T]):
    """An iterator that threads may draw from together."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()
        self._stopped = False

    def __next__(self) -> T:
        with self._lock:
            if self._stopped:
                raise StopIteration
            return next(self._items)

    def stop(self) -> None:
        self._stopped = True
