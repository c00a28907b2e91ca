"""Things that happen at the same moment, on real connections."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection

PATIENCE = 30.0


class Crew:
    """Threads that keep their connections from round to round, so that a round costs little."""

    def __init__(self, most: int = 16) -> None:
        self._pool = ThreadPoolExecutor(max_workers=most)
        self._most = most

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        # Each thread closes its own connection: all are waiting at the barrier, so none takes two of these. Looked up
        # there, not here, where `connection` would be ours.
        self.together([lambda: connection.close()] * self._most)
        self._pool.shutdown()

    def together(self, actions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Let `actions` loose at one moment; returns what each returned, or the exception it raised."""
        barrier = threading.Barrier(len(actions), timeout=PATIENCE)

        def act(action: Callable[[], Any]) -> Any:
            barrier.wait()
            try:
                return action()
            except Exception as error:
                return error

        return [future.result(PATIENCE) for future in [self._pool.submit(act, action) for action in actions]]

    def start(self, action: Callable[[], Any]) -> "Errand":
        """Let one action loose and go on."""
        return Errand(self._pool, action)


class Errand:
    """An action that is under way."""

    def __init__(self, pool: ThreadPoolExecutor, action: Callable[[], Any]) -> None:
        self._future = pool.submit(action)

    @property
    def done(self) -> bool:
        return self._future.done()

    def result(self) -> Any:
        return self._future.result(PATIENCE)
