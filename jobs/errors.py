"""What a command may answer instead of doing it; each message is one sentence for people."""


class Refused(Exception):
    """The command does not fit the state of things; nothing was changed."""


class Stale(Refused):
    """A write named an execution that is not its job's current one any more, or another process than started it."""


class Invalid(Exception):
    """What was sent can't be used; `errors` says why, by field."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = errors


class TooLarge(Exception):
    """What was sent is beyond a limit."""


class NotFound(Exception):
    """There is no such thing for this person, whether it exists or not."""


class Forbidden(Exception):
    """This person may see the thing, but not do that with it."""
