"""What the API refuses before any command is asked."""


class Malformed(Exception):
    """The request can't be read; one sentence says why."""


class Unauthenticated(Exception):
    """The caller said who it is in a way that does not hold; one sentence says why."""


class Throttled(Exception):
    """Too many requests; the next one has a chance in `wait` seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__(f"wait {wait:.0f} s")
        self.wait = wait
