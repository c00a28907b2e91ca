"""The plain tools' job: nothing, or the moment at which it ran."""

import time


def nothing() -> None:
    """Do nothing."""


def stamp(path: str) -> None:
    """Write the moment at which this ran."""
    with open(path, "w") as file:
        file.write(repr(time.time()))
