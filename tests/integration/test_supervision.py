"""Supervision of small stand-in parts: what comes back, what is left alone, what is said, what stops last."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from config import environment
from stack import preparation, supervision, watch
from stack.places import Places
from stack.processes import recorded
from stack.program import Program
from stack.supervision import Supervisor
from stack.watch import Watch

PATIENCE = 30


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen"
        time.sleep(0.05)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    settings = replace(environment.read(), data_dir=tmp_path / "data", storage_url=None)
    places = Places.of(settings)
    preparation.make_data_folder(settings, places)
    preparation.make_socket_folder(places)
    yield places
    preparation.remove_socket_folder(places)


@pytest.fixture
def supervise(places: Places, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Supervisor]]:
    monkeypatch.setattr(supervision, "START_SECONDS", 1)
    made: list[Supervisor] = []

    def make(*programs: Program) -> Supervisor:
        supervisor = Supervisor(places, programs, [])
        made.append(supervisor)
        supervisor.launch()
        eventually(supervisor.ready)
        supervisor.start(program.name for program in programs)
        return supervisor

    yield make
    for supervisor in made:
        supervisor.shut_down()
        eventually(supervisor.ended)


def python(name: str, code: str, **wanted: object) -> Program:
    return replace(Program(name=name, command=(sys.executable, "-c", code)), **wanted)  # type: ignore[arg-type]


def process_of(places: Places, name: str) -> psutil.Process:
    eventually(lambda: recorded(places.run / f"{name}.pid") is not None)
    found = recorded(places.run / f"{name}.pid")
    assert found
    return psutil.Process(found.pid)


def test_what_a_killed_part_forked_is_left_alone_and_can_still_write_its_log(places, supervise):
    """As an execution process goes on when its worker is killed."""
    code = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setpgrp(); signal.signal(signal.SIGUSR1, lambda *_: print('still here', flush=True))\n"
        "    print('child', os.getpid(), flush=True)\n"
        "while True: time.sleep(60)"
    )
    supervise(python("forks", code))
    log = places.log_of("forks")
    eventually(lambda: log.exists() and "child " in log.read_text())
    child = psutil.Process(int(log.read_text().split()[1]))
    parent = process_of(places, "forks")
    parent.kill()
    eventually(lambda: process_of(places, "forks") != parent)
    assert child.is_running()
    child.send_signal(signal.SIGUSR1)
    eventually(lambda: "still here" in log.read_text())
    child.kill()
    eventually(lambda: log.read_text().count("child ") == 2)
    psutil.Process(int(log.read_text().split("child ")[2].split()[0])).kill()  # its successor's


def test_a_part_that_cannot_stay_up_is_told_of_once_and_then_that_it_recovered(places, supervise, tmp_path):
    code = f"import os, time; os.path.exists({str(tmp_path / 'cured')!r}) and time.sleep(60)"
    look = Watch(places, supervise(python("sick", code))).look
    lines: list[str] = []

    def told() -> int:
        lines.extend(look())
        return len(lines)

    eventually(lambda: told() == 1)
    (tmp_path / "cured").touch()
    eventually(lambda: told() == 2)
    assert lines == [
        f"sick ends soon after each start; trying again with pauses. Its log: {places.log_of('sick')}",
        "sick stays up again.",
    ]


def test_a_part_that_was_given_up_is_started_again(places, supervise, monkeypatch, tmp_path):
    monkeypatch.setattr(supervision, "START_RETRIES", 0)
    monkeypatch.setattr(watch, "RETRY_GIVEN_UP_SECONDS", 0.5)
    code = f"import os, time; os.path.exists({str(tmp_path / 'cured')!r}) and time.sleep(60)"
    supervisor = supervise(python("sick", code))
    look = Watch(places, supervisor).look
    eventually(lambda: supervisor.states()["sick"].state == "FATAL")
    (tmp_path / "cured").touch()

    def runs() -> bool:
        look()
        return bool(supervisor.states()["sick"].state == "RUNNING")

    eventually(runs)


def test_servers_are_stopped_last(places, supervise, tmp_path):
    journal = tmp_path / "journal"
    code = (
        "import signal, sys, time\n"
        "def stop(*_):\n"
        "    time.sleep({pause}); open({journal!r}, 'a').write('{name} '); sys.exit()\n"
        "signal.signal(signal.SIGTERM, stop); print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )

    def part(name: str, pause: float, **wanted: object) -> Program:
        return python(name, code.format(pause=pause, journal=str(journal), name=name), **wanted)

    supervisor = supervise(part("server", 0, server=True), part("worker", 1), part("web", 0.3))
    logs = [places.log_of(name) for name in ("server", "worker", "web")]
    eventually(lambda: all(log.exists() and "ready" in log.read_text() for log in logs))
    supervisor.shut_down()
    eventually(supervisor.ended)
    assert journal.read_text().split() == ["web", "worker", "server"]


def test_a_part_that_does_not_stop_in_its_time_is_killed_with_its_group(places, supervise):
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); print(os.getpid(), flush=True)\n"
        "while True: time.sleep(60)"
    )
    supervisor = supervise(python("stubborn", code, stop_seconds=1))
    log = places.log_of("stubborn")
    eventually(lambda: log.exists() and len(log.read_text().split()) == 2)
    family = [psutil.Process(int(pid)) for pid in log.read_text().split()]
    supervisor.stop(["stubborn"])
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []


def test_a_log_that_grows_too_long_is_turned_over_under_its_writer(places, supervise, monkeypatch):
    monkeypatch.setattr(watch, "MAX_LOG_BYTES", 1000)
    code = "import time\nwhile True: print('x' * 100, flush=True); time.sleep(0.02)"
    look = Watch(places, supervise(python("wordy", code))).look
    log = places.log_of("wordy")
    former = log.with_name("wordy.log.1")

    def turned_over() -> bool:
        look()
        return bool(former.exists())

    eventually(turned_over)
    assert log.stat().st_size < former.stat().st_size
    eventually(lambda: log.stat().st_size > 0)
    assert b"\0" not in log.read_bytes()
    assert former.stat().st_size > 1000


def test_parts_end_when_their_supervisor_is_killed(places, supervise):
    supervisor = supervise(python("part", "import time; time.sleep(60)"))
    part = process_of(places, "part")
    eventually(lambda: supervisor.states()["part"].state == "RUNNING")
    supervisor.kill()
    assert psutil.wait_procs([part], timeout=PATIENCE)[1] == []


def test_a_supervisor_that_is_gone_has_nothing_to_say(places):
    supervisor = Supervisor(places, [], [])
    assert supervisor.states() == {}
    assert os.listdir(places.sockets) == []
