"""Daphne, taught to hand a large body on as it comes: it alone would collect a request before anybody sees it."""

import asyncio
import io
from collections import deque
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest

STREAMED_FROM = 1024 * 1024
"""Bytes of a body; a smaller one is cheaper collected. One that does not say its length is handed on, too."""
HELD = 1024 * 1024
"""Bytes kept for an application that is slower than its client; beyond them the client is not read."""
DRAINED = 64 * 1024 * 1024
"""Bytes still read after the answer, since many clients read none before they have sent theirs."""


class Body:
    """A body on its way, and the application's `receive` and queue in one."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._pieces: deque[bytes] = deque()
        self._held = self.drained = 0
        self._news = asyncio.Event()
        self._paused = self._gone = self._told = self.whole = self.discarding = False

    def put(self, data: bytes) -> None:
        if self.discarding:
            self.drained += len(data)
            return
        self._pieces.append(data)
        self._held += len(data)
        self._news.set()
        if self._held > HELD and not self._paused:
            self._paused = True
            self._channel.setTimeout(None)  # the client is not to blame for the silence
            self._channel._networkProducer.pauseProducing()

    def end(self) -> None:
        self.whole = True
        self._news.set()

    def discard(self) -> None:
        """Nobody wants the rest."""
        self.discarding = True
        self._pieces.clear()
        self._held = 0
        self._go_on()

    def put_nowait(self, message: dict[str, Any]) -> None:
        """What daphne's own code says to the application; the body that it knows of is empty."""
        if message["type"] == "http.disconnect":
            self._gone = True
            self._news.set()

    async def receive(self) -> dict[str, Any]:
        while True:
            if self._pieces or (self.whole and not self._told and not self._gone):
                return self._next()
            if self._gone:
                return {"type": "http.disconnect"}
            self._news.clear()
            await self._news.wait()

    def _next(self) -> dict[str, Any]:
        piece = self._pieces.popleft() if self._pieces else b""
        self._held -= len(piece)
        if self._held <= HELD // 2:
            self._go_on()
        self._told = self.whole and not self._pieces
        return {"type": "http.request", "body": piece, "more_body": not self._told}

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            self._channel.setTimeout(self._channel.timeOut)
            self._channel._networkProducer.resumeProducing()


class StreamedRequest(WebRequest):  # type: ignore[misc]  # daphne has no types
    """A request whose application starts before its body is there, where that is large."""

    body: Body | None = None
    _answered = False

    def gotLength(self, length: int | None) -> None:  # noqa: N802  Twisted's names
        if length is not None and length < STREAMED_FROM:
            super().gotLength(length)
            return
        self.content = io.BytesIO()
        self.body = Body(self.channel)
        self.method, self.uri, self.clientproto = self.channel._command, self.channel._path, self.channel._version
        self.path = self.uri.split(b"?", 1)[0]
        self.args: dict[bytes, list[bytes]] = {}
        self.process()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        if self.body is None:
            super().handleContentChunk(data)
            return
        self.body.put(data)
        if self.body.drained > DRAINED and not self.finished:
            self.channel.persistent = False
            super().finish()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        if self.body is None:
            super().requestReceived(command, path, version)
            return
        self.body.end()
        if self._answered and not self.finished:
            super().finish()

    def finish(self) -> None:
        """Answered before the body's end, it is finished with that: what follows would be taken for another request."""
        if self.body is not None and not self.body.whole:
            self._answered = True
            self.body.discard()
            return
        super().finish()


class StreamingFactory(HTTPFactory):  # type: ignore[misc]
    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = StreamedRequest
        return protocol
