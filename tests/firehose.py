"""An ASGI application that sends a lot, and tells how much of it the server has taken so far."""

from typing import Any

CHUNK = b"x" * 65536
CHUNKS = 1024
taken = 0


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    global taken
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/taken":
        await send({"type": "http.response.body", "body": str(taken).encode()})
        return
    for _ in range(CHUNKS):
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        taken += len(CHUNK)
    await send({"type": "http.response.body"})
