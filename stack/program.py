"""What one part of the stack is."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from stack import part
from stack.places import Places


@dataclass(frozen=True, kw_only=True)
class Program:
    """A part: what it executes, and how it is ended."""

    name: str
    command: tuple[str, ...]
    directory: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    """Who it runs as, when that isn't whoever runs the stack."""
    hold: Path | None = None
    """A folder to keep open for it; see `stack.part.HELD_FOLDER`."""
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10
    """How long it may take to end before it is killed."""
    server: bool = False
    """Whether the other parts need it: started before them, stopped after them."""

    def starter(self, places: Places, *, parent: Path | None = None) -> list[str]:
        """Write down what to execute; the returned command becomes the part.

        It ends when its parent does: this process, or the one that `parent` records.
        """
        spec = places.run / f"{self.name}.json"
        spec.write_text(json.dumps({**self._spec(places), "parent": os.getpid() if parent is None else str(parent)}))
        return [sys.executable, "-IS", part.__file__, str(spec)]

    def record(self, places: Places) -> Path:
        return places.run / f"{self.name}.pid"

    def _spec(self, places: Places) -> dict[str, object]:
        wanted = asdict(self)
        return {
            **{key: wanted[key] for key in ("command", "directory", "environment", "user")},
            "hold": self.hold and str(self.hold),
            "record": str(self.record(places)),
            "log": str(places.log_of(self.name)),
            "death_signal": int(self.stop_signal),
        }
