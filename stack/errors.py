"""What ends a start."""


class CannotStart(Exception):
    """The stack can't come up (or can't go on); the message is one sentence for people."""


class Interrupted(Exception):
    """Somebody asked the stack to stop."""
