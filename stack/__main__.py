"""`python -m stack`: what `make up` runs; as `manage.py up`, without first loading Django alone."""

import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)

from config import environment  # noqa: E402
from stack import processes, up  # noqa: E402
from stack.errors import CannotStart  # noqa: E402


def main() -> None:
    if "MAKELEVEL" in os.environ:
        # A killed make can't pass anything on.
        processes.end_with_parent()
    try:
        up.run(environment.read())
    except (environment.BadEnvironment, CannotStart) as error:
        sys.exit(f"rerail: {error}")


if __name__ == "__main__":
    main()
