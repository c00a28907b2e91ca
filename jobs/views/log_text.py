"""A script's output as a page shows it."""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def whole_lines(data: bytes) -> int:
    """How many of the bytes make whole lines; all of them where there is no end of line."""
    return data.rfind(b"\n") + 1 or len(data)


def readable(data: bytes) -> str:
    """Text without colours and cursor movements; of a line that overwrote itself, what it ended as."""
    text = _ESCAPES.sub("", data.decode(errors="replace")).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("", "\n".join(lines))
