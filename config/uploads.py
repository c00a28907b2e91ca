"""Django, taught to read a file that is uploaded while it comes: its own way is to keep all of a body first."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from django.core.handlers.asgi import ASGIHandler

HELD = 1024 * 1024

Receive = Callable[[], Awaitable[dict[str, Any]]]


class Body:
    """A body read in the view's thread while the event loop receives it; stands for `receive` towards Django."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._whole = self._gone = False
        self._change = threading.Condition()
        self._room, self._disconnected = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> dict[str, Any]:
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def pump(self) -> None:
        """Receive until the client is gone."""
        while (message := await self._receive())["type"] == "http.request":
            with self._change:
                self._pieces.append(message.get("body", b""))
                self._held += len(self._pieces[-1])
                self._whole = not message.get("more_body", False)
                self._change.notify()
                full = self._held > HELD
                self._room.clear()
            if full:
                await self._room.wait()
        # First for the thread: Django waits for it once it is told.
        self.give_up()
        self._disconnected.set()

    def give_up(self) -> None:
        """Let nobody wait for more."""
        with self._change:
            self._gone = True
            self._change.notify()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, but no more than one piece; nothing at the end. Raises OSError where it broke off."""
        with self._change:
            while not self._pieces:
                if self._whole:
                    return b""
                if self._gone:
                    raise OSError("The client went away.")
                self._change.wait()
            piece = self._pieces.popleft()
            if 0 <= size < len(piece):
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            self._held -= len(piece)
            if self._held <= HELD // 2:
                with suppress(RuntimeError):  # a loop that is closed waits for nothing
                    self._loop.call_soon_threadsafe(self._room.set)
        return piece if piece else self.read(size)

    def close(self) -> None:
        self.give_up()


class StreamingHandler(ASGIHandler):
    """Requests for which `streams` says so get a body that is still on its way."""

    def __init__(self, streams: Callable[[str, str], bool]) -> None:
        super().__init__()
        self._streams = streams

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._streams(scope["method"], scope["path"]):
            await super().handle(scope, receive, send)
            return
        body = Body(receive)
        pump = asyncio.create_task(body.pump())
        try:
            await super().handle(scope, body, send)
        finally:
            body.give_up()
            pump.cancel()

    async def read_body(self, receive: Any) -> Any:
        return receive if isinstance(receive, Body) else await super().read_body(receive)
