"""Waiting that a signal can end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType

from stack.errors import Interrupted

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Waiting(contextlib.ExitStack):
    """While this context lasts, a request to stop ends the current wait, or the next one, with Interrupted: once.

    Signals change nothing between waits, so that no step of the sequence is left half done.
    """

    def __init__(self) -> None:
        super().__init__()
        self._requested = False
        self._raised = False

    def __enter__(self) -> Waiting:
        super().__enter__()
        self._reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.callback(os.close, self._reader)
        self.callback(os.close, writer)
        self.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writer, warn_on_full_buffer=False))
        for number in STOPS:
            # Whoever started us with nohup wants us to outlive the terminal.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self.callback(signal.signal, number, signal.signal(number, self._request))
        self.callback(signal.signal, signal.SIGCHLD, signal.signal(signal.SIGCHLD, lambda *_: None))
        return self

    def go_on(self) -> None:
        """From here on, requests to stop change nothing: we are stopping."""
        self._raised = True

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than until the next signal."""
        select.select([self._reader], [], [], 0 if self._due else seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 4096)
        if self._due:
            self._raised = True
            raise Interrupted

    def until(self, condition: Callable[[], bool], *, seconds: float, step: float = 0.03) -> bool:
        """Wait until `condition` holds, asked every `step` seconds; false if it still doesn't after `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.pause(step)
        return True

    @property
    def _due(self) -> bool:
        return self._requested and not self._raised

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._requested = True
