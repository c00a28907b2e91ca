"""Daphne, taught to wait for slow readers, and to hand large bodies on as they come.

It alone would keep all that an answer has yet to send, and all of a request, in memory.

`python -m config.server` takes daphne's own options.
"""

import asyncio
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from daphne import server as daphne_server
from daphne.cli import CommandLineInterface
from daphne.server import Server

from config.streaming import StreamingFactory

# Its server makes the factory by this name, and offers no other way to choose one.
daphne_server.HTTPFactory = StreamingFactory


class _Tap:
    """Open while the client's socket takes more; Twisted calls it a push producer."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    async def wait(self) -> None:
        await self._open.wait()

    def pauseProducing(self) -> None:  # noqa: N802  Twisted's names
        self._open.clear()

    def resumeProducing(self) -> None:  # noqa: N802
        self._open.set()

    def stopProducing(self) -> None:  # noqa: N802
        # The client is gone: nobody may wait for it.
        self._open.set()


class PatientServer(Server):  # type: ignore[misc]  # daphne has no types
    """A server whose `send` returns once the client's buffer has room."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._taps: WeakKeyDictionary[Any, _Tap] = WeakKeyDictionary()

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if (body := getattr(protocol, "body", None)) is None:
            return super().create_application(protocol, scope)
        scope.setdefault("asgi", {"version": "3.0"})
        running = self.application(scope=scope, receive=body.receive, send=partial(self.handle_reply, protocol))
        self.connections[protocol]["application_instance"] = asyncio.ensure_future(running)
        return body

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        if message["type"] != "http.response.body":
            await super().handle_reply(protocol, message)
            return
        more = message.get("more_body", False)
        if not more:
            self._release(protocol)
        await super().handle_reply(protocol, message)
        if more and (tap := self._tap(protocol)) is not None:
            await tap.wait()

    def _tap(self, protocol: Any) -> _Tap | None:
        if protocol not in self._taps and protocol.channel is not None and not protocol.finished:
            self._taps[protocol] = _Tap()
            protocol.registerProducer(self._taps[protocol], True)
        return self._taps.get(protocol)

    def _release(self, protocol: Any) -> None:
        if self._taps.pop(protocol, None) is not None and protocol.channel is not None:
            protocol.unregisterProducer()


class PatientCommandLine(CommandLineInterface):  # type: ignore[misc]  # daphne has no types
    server_class = PatientServer


if __name__ == "__main__":
    PatientCommandLine.entrypoint()
