"""How a followed job ended, as an exit code and, where it failed, with its script's last words."""

from jobs.console import display, following
from jobs.console.base import ConsoleCommand
from jobs.console.display import printable
from jobs.console.following import Gone, Polling
from jobs.selectors.following import Look, last_output
from jobs.states import JobState

EXIT_CODES = {JobState.SUCCEEDED: 0, JobState.FAILED: 1, JobState.CANCELLED: 3}
EXPLAINED = "Exit code: 0 succeeded, 1 failed, 3 cancelled, 2 the command itself could not go on, 130 Ctrl-C."
LAST_LINES = 20


def follow(command: ConsoleCommand, job_id: int, after: int = 0) -> int:
    """Show a job's timeline until it has ended; returns the exit code that tells how."""
    try:
        look = display.watch(following.follow(Polling(job_id), after), display.of(command))
    except Gone as error:
        raise command.error(str(error)) from None
    if look.state is JobState.FAILED:
        show_last_words(command, look)
    return EXIT_CODES[look.state]


def show_last_words(command: ConsoleCommand, look: Look) -> None:
    """Print the last lines of the latest attempt that printed anything."""
    label, lines = last_output(look.job_id, LAST_LINES)
    if lines:
        command.say(f"The last lines of {label}:")
    for line in lines:
        command.say(f"  {printable(line.expandtabs())}")
