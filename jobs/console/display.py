"""A timeline on a screen, or in a pipe."""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from jobs.console.base import ConsoleCommand
from jobs.console.following import Away
from jobs.selectors.events import EventView
from jobs.selectors.following import Look

STYLES = {
    "succeeded": "bold green",
    "failed": "bold red",
    "cancelled": "yellow",
    "execution_failed": "red",
    "lease_expired": "red",
    "worker_crashed": "red",
    "attempts_exhausted": "red",
    "requeued": "magenta",
    "checkpoint_saved": "cyan",
    "checkpoint_restored": "cyan",
}


class Display(Protocol):
    """Shows what a follower learns; used as a context."""

    def show(self, news: Look | Away) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def of(command: ConsoleCommand) -> Display:
    """A display with a progress bar where `command` writes to a terminal, plain lines elsewhere."""
    console = Console()
    if command.stdout.isatty() and console.is_terminal and not console.is_dumb_terminal:
        return Live(console)
    return Plain(command.say, command.warn)


def watch(news: Iterable[Look | Away], display: Display) -> Look:
    """Show all of `news`; returns the last look."""
    last: Look | None = None
    with display:
        for item in news:
            display.show(item)
            last = item if isinstance(item, Look) else last
    assert last is not None, "a follower ends with a look"
    return last


class _Outage:
    """Remembers whether the database was away, for the one line at each end of it."""

    def __init__(self) -> None:
        self._away = False

    def line(self, news: Look | Away) -> str | None:
        if isinstance(news, Away):
            self._away = True
            return f"The database is away ({news.why}); waiting for it …"
        if self._away:
            self._away = False
            return "The database is back."
        return None


class Plain:
    """One line for each event; outages are told beside, so that a pipe holds events alone."""

    def __init__(self, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._say = say
        self._warn = warn
        self._outage = _Outage()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, news: Look | Away) -> None:
        if line := self._outage.line(news):
            self._warn(line)
        if isinstance(news, Look):
            for event in news.events:
                self._say(line_of(event))


class Live:
    """The same lines in colour above a bar that tells how far the job is."""

    def __init__(self, console: Console) -> None:
        self._outage = _Outage()
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[steps]}"))
        self._progress = Progress(*columns, console=console, transient=True)
        self._bar = self._progress.add_task("", total=None, steps="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, news: Look | Away) -> None:
        if line := self._outage.line(news):
            self._print(Text(line, style="yellow"))
        if isinstance(news, Look):
            for event in news.events:
                self._print(_coloured(event))
            self._advance(news)

    def _print(self, text: Text) -> None:
        self._progress.console.print(text, soft_wrap=True)

    def _advance(self, look: Look) -> None:
        steps = "" if look.step is None else f"{look.step}/{look.total or '?'}"
        where = f"job {look.job_id} {look.phase or look.state.value.lower()}"
        self._progress.update(self._bar, description=where, total=look.total, completed=look.step or 0, steps=steps)


def line_of(event: EventView) -> str:
    """Time (UTC), number, execution, kind and sentence of an event, in columns and on one line."""
    return f"{_columns(event)}{event.kind:<19} {_one_line(event.message)}"


def _coloured(event: EventView) -> Text:
    kind = Text(f"{event.kind:<19} ", style=STYLES.get(event.kind, "bold"))
    return Text.assemble((_columns(event), "dim"), kind, _one_line(event.message))


def _columns(event: EventView) -> str:
    return f"{event.at:%Y-%m-%d %H:%M:%S}  {event.seq:>3}  {event.execution or '-':<8} "


def printable(text: str) -> str:
    """`text` without anything that a terminal would obey: scripts have a hand in it."""
    return "".join(character if character.isprintable() else " " for character in text)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
