"""What may be asked for. Each rule returns what is wrong, as one sentence for people, or None."""

import math
import re
from collections.abc import Mapping, Sequence

from jobs.states import ReasonClass

MAX_NAME = 200
MAX_LABELS = 50
MAX_LABEL_VALUE = 200
MAX_ATTEMPTS = 100
MAX_SECONDS = 100_000_000.0
MAX_ARGS = 1000
MAX_STRING_BYTES = 100_000
"""Of one argument or variable; Linux takes no longer one than 128 KiB."""
MAX_STRINGS_BYTES = 1_000_000
"""Of all arguments and variables together; Linux takes 2 MiB."""
MAX_REQUIREMENTS = 100_000

LABEL_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,62}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
RESERVED = "RERAIL_"


def script(text: str) -> str | None:
    if not text.strip():
        return "The script is empty."
    return _text("The script", text)


def name(text: str) -> str | None:
    if len(text) > MAX_NAME:
        return f"A name has at most {MAX_NAME} characters."
    return None if _one_line(text) else "A name is one line of printable characters."


def labels(chosen: Mapping[str, str]) -> str | None:
    if len(chosen) > MAX_LABELS:
        return f"There may be at most {MAX_LABELS} labels."
    for key, value in chosen.items():
        if not LABEL_KEY.fullmatch(key):
            return "A label's key has 1 to 63 letters, digits or any of _ . / - and begins with a letter, digit or _."
        if len(value) > MAX_LABEL_VALUE or not _one_line(value):
            return f"The value of label {key} must be one line of at most {MAX_LABEL_VALUE} printable characters."
    return None


def args(given: Sequence[str]) -> str | None:
    if len(given) > MAX_ARGS:
        return f"There may be at most {MAX_ARGS} arguments."
    return _strings("An argument", given)


def env(variables: Mapping[str, str]) -> str | None:
    for variable in variables:
        if not VARIABLE.fullmatch(variable):
            return "A variable's name has letters, digits and _, and does not begin with a digit."
        if variable.upper().startswith(RESERVED):
            return f"{variable} can't be set: names that begin with {RESERVED} are the worker's own."
    return _strings("A variable's value", [f"{key}={value}" for key, value in variables.items()])


def requirements(text: str) -> str | None:
    if len(text) > MAX_REQUIREMENTS:
        return f"Requirements have at most {MAX_REQUIREMENTS} characters."
    return _text("Requirements", text)


def max_attempts(number: int) -> str | None:
    return None if 1 <= number <= MAX_ATTEMPTS else f"It must be from 1 to {MAX_ATTEMPTS}."


def retry_on(classes: frozenset[str]) -> str | None:
    known = [kind.value for kind in ReasonClass]
    return None if classes <= set(known) else f"It may hold {' and '.join(known)}."


def seconds(number: float | None) -> str | None:
    if number is None or (math.isfinite(number) and 0 < number <= MAX_SECONDS):
        return None
    return f"It must be a number of seconds above 0 and up to {MAX_SECONDS:.0f}."


def _text(what: str, text: str) -> str | None:
    if "\0" in text:
        return f"{what} must not hold a NUL character."
    return None if _encodes(text) else f"{what} must be text that UTF-8 can hold."


def _strings(what: str, given: Sequence[str]) -> str | None:
    for text in given:
        if wrong := _text(what, text):
            return wrong
    sizes = [len(text.encode()) for text in given]
    if any(size > MAX_STRING_BYTES for size in sizes):
        return f"{what} has at most {MAX_STRING_BYTES} bytes."
    return f"Together they have at most {MAX_STRINGS_BYTES} bytes." if sum(sizes) > MAX_STRINGS_BYTES else None


def _one_line(text: str) -> bool:
    return all(character.isprintable() for character in text)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
