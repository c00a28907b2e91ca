"""What a timeline looks like."""

import io
from datetime import UTC, datetime

from rich.console import Console

from jobs.console.display import Live, Plain, line_of, watch
from jobs.console.following import Away
from jobs.selectors.events import EventView
from jobs.selectors.following import Look
from jobs.states import JobState


def event(seq=4, message="Started on worker w1.", kind="started", execution="12.1"):
    at = datetime(2026, 3, 1, 9, 30, 5, tzinfo=UTC)
    return EventView(
        seq=seq, job_id=12, execution=execution, kind=kind, message=message, reason=None, details={},
        actor="worker:w1", at=at, recorded_at=at,
    )  # fmt: skip


def look(*events, state=JobState.RUNNING, step=None, total=None):
    return Look(
        job_id=12, state=state, message="", last_seq=9, phase="training", step=step, total=total, events=events
    )  # fmt: skip


def test_a_line_has_time_number_execution_kind_and_sentence():
    assert line_of(event()).split(None, 5) == [
        "2026-03-01", "09:30:05", "4", "12.1", "started", "Started on worker w1.",
    ]  # fmt: skip


def test_a_sentence_of_several_lines_stays_on_one():
    assert line_of(event(message="It failed:\n  no such\n  package")).endswith("It failed: no such package")


def test_nothing_that_a_script_says_reaches_the_terminal_as_a_command():
    assert "\x1b" not in line_of(event(message="\x1b[2J\x1b]0;owned\x07"))


def test_plain_lines_are_events_alone_and_an_outage_is_told_beside_them_at_both_ends():
    lines: list[str] = []
    warnings: list[str] = []
    news = [look(event(1)), Away(why="refused"), look(event(2)), look(event(3), state=JobState.SUCCEEDED)]

    last = watch(news, Plain(lines.append, warnings.append))

    assert [line.split()[2] for line in lines] == ["1", "2", "3"]
    assert warnings == ["The database is away (refused); waiting for it …", "The database is back."]
    assert last.state is JobState.SUCCEEDED


def test_a_terminal_shows_every_event_and_how_far_the_job_is():
    screen = io.StringIO()
    display = Live(Console(file=screen, force_terminal=True, width=200, color_system=None))

    with display:
        display.show(look(event(1), event(2, message="[bold]not markup[/bold]")))
        display.show(look(step=7, total=30))
        display._progress.refresh()

    shown = screen.getvalue()
    assert "Started on worker w1." in shown
    assert "[bold]not markup[/bold]" in shown
    assert "job 12 training" in shown
    assert "7/30" in shown
