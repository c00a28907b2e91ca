"""The manner of every console command: one line for an error, nothing for a Ctrl-C."""

import os
import sys
from typing import Any, Literal

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, ProgrammingError

from jobs.errors import Invalid, Refused, TooLarge

CANNOT = 2
"""Exit code where the command itself could not do its work; argparse uses the same for a wrong call."""
INTERRUPTED = 130
NOBODY_READS = 141


class ConsoleCommand(BaseCommand):
    """A command for people and scripts beside a running stack; its answer goes to stdout, all else to stderr."""

    requires_system_checks: tuple[str, ...] | Literal["__all__"] = ()
    cannot = CANNOT

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except (OperationalError, InterfaceError) as error:
            raise self.error(f"The database can't be reached: {first_line(error)}") from None
        except ProgrammingError as error:
            raise self.error(f"The database's tables are not those of this version: {first_line(error)}") from None
        except Invalid as error:
            raise self.error(" ".join(f"{field}: {wrong}" for field, wrong in error.errors.items())) from None
        except (Refused, TooLarge) as error:
            raise self.error(str(error)) from None
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # Python would flush once more at exit, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(NOBODY_READS)

    def error(self, sentence: str) -> CommandError:
        return CommandError(sentence, returncode=self.cannot)

    def say(self, line: str) -> None:
        """Write a line of the answer, at once: somebody may be reading a pipe."""
        self.stdout.write(line)
        self.stdout.flush()

    def warn(self, line: str) -> None:
        self.stderr.write(line)


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
