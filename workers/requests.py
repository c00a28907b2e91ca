"""What a script asks for by `rerail.checkpoint()`, in two files of its own folder.

It appends a line to the first for each request: its step, or `-`. Where that line ends in the file is the request's
name. For each snapshot, a line is appended to the second: the name of the last request that it answers, and `stored` or
`failed`. Both are held open from before the script starts, so nothing that it puts in their place is ever opened.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CHUNK = 64 * 1024
LARGEST_STEP = 2**63 - 1
_FLAGS = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All that was asked up to one moment: the last request's name, and the step it was made at."""

    upto: int = 0
    step: int | None = None


class Requests:
    """A script's requests; a context manager."""

    def __init__(self, requests: Path, answers: Path) -> None:
        self._requests = os.open(requests, os.O_RDONLY | _FLAGS, 0o600)
        self._answers = os.open(answers, os.O_WRONLY | os.O_APPEND | _FLAGS, 0o600)
        self._answered = 0
        self.asked = Asked()

    def __enter__(self) -> "Requests":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._requests)
        os.close(self._answers)

    def look(self) -> bool:
        """Read what was asked since the last look; returns whether something waits for its answer."""
        data = os.pread(self._requests, CHUNK, self.asked.upto)
        if end := data.rfind(b"\n") + 1:
            self.asked = Asked(upto=self.asked.upto + end, step=_step(data[:end].splitlines()[-1]))
        elif len(data) == CHUNK:  # no request is that long
            self.asked = Asked(upto=self.asked.upto + CHUNK)
        return self.waiting

    @property
    def waiting(self) -> bool:
        return self.asked.upto > self._answered

    def answer(self, asked: Asked, *, stored: bool) -> None:
        """Tell the script what became of a snapshot that was begun after `asked`."""
        if asked.upto <= self._answered:
            return
        self._answered = asked.upto
        with suppress(OSError):  # its disk may be full: then it waits in vain
            os.write(self._answers, b"%d %s\n" % (asked.upto, b"stored" if stored else b"failed"))


def _step(line: bytes) -> int | None:
    text = line.decode("ascii", "replace")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= LARGEST_STEP else None
