"""How a script starts, ends and is ended, at every isolation level, with real processes."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.sandbox import LEVELS, PATIENCE, Bench, open_bench
from workers.process import Exit, Level, Script, SpawnError

OWNER = """
import os, sys, threading, time
from tests.sandbox import PATIENCE, Bench
from workers.process import Level
from pathlib import Path
bench = Bench(Level(sys.argv[1]), Path(sys.argv[2]))
bench.output.writer = 1
code = "daemon(); print('ready'); time.sleep(3600)"
thread = threading.Thread(target=lambda: bench.start(code))
thread.start()
thread.join()
print("thread ended", flush=True)
if os.fork() == 0:  # holds a copy of every descriptor, as a forked helper would
    os.dup2(0, 1)
    os.dup2(0, 2)
    time.sleep(2 * PATIENCE)
    os._exit(0)
threading.Event().wait()
"""


@pytest.fixture(params=LEVELS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with open_bench(request.param) as bench:
        yield bench


def watchers(script: Script) -> tuple[psutil.Process, psutil.Process]:
    """The launcher and init of a script."""
    launcher = psutil.Process(script._launcher.pid)
    return launcher, launcher.children()[0]


def test_an_exit_code_is_reported_as_a_code(bench: Bench) -> None:
    assert bench.start("sys.exit(37)").wait(PATIENCE) == Exit(code=37, signal=None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_death_by_a_signal_is_reported_as_that_signal(bench: Bench, number: signal.Signals) -> None:
    assert bench.start(f"os.kill(os.getpid(), {number.value})").wait(PATIENCE) == Exit(code=None, signal=number)


def test_waiting_gives_up_after_its_timeout(bench: Bench) -> None:
    script = bench.start("time.sleep(3600)")
    assert script.wait(0.05) is None
    assert script.wait(0) is None


def test_its_descriptor_becomes_readable_when_it_has_ended_and_not_before(bench: Bench) -> None:
    script = bench.start("print('up'); sys.stdin.close(); time.sleep(0.2)")
    bench.output.line()
    assert select.select([script], [], [], 0)[0] == []
    assert select.select([script], [], [], PATIENCE)[0] == [script]
    assert script.wait(0) == Exit(0, None)


def test_the_pid_is_that_of_the_main_process_seen_from_here(bench: Bench) -> None:
    script = bench.start("print('a mark'); time.sleep(3600)")
    bench.output.line()
    assert any("a mark" in argument for argument in psutil.Process(script.pid).cmdline())


def test_sigterm_reaches_the_main_process_alone_which_may_save_and_exit_by_itself(bench: Bench) -> None:
    script = bench.start(
        """
import signal, subprocess
loader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
def save(*_):
    try: print("saving without", loader.wait(0.3))
    except subprocess.TimeoutExpired: print("saving")
    sys.exit(5)
signal.signal(signal.SIGTERM, save)
print("ready")
while True: time.sleep(1)
"""
    )
    assert bench.output.line() == "ready"
    script.terminate()
    assert script.wait(PATIENCE) == Exit(5, None)
    assert bench.output.rest() == "saving\n"


def test_terminating_a_script_that_has_ended_does_nothing(bench: Bench) -> None:
    script = bench.start("pass")
    select.select([script], [], [], PATIENCE)
    script.terminate()
    script.wait(PATIENCE)
    script.terminate()


def test_a_script_starts_with_default_signal_handling_even_if_ours_ignores(bench: Bench) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        text = bench.run(
            "import signal; print([n.name for n in signal.Signals if n not in (9, 19) "
            "and signal.getsignal(n) == signal.SIG_IGN])"
        )
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert text == "['SIGPIPE', 'SIGXFSZ']", "these two are ignored by every Python"


def test_a_daemonised_descendant_is_gone_when_the_main_process_has_ended(bench: Bench) -> None:
    script = bench.start("daemon(); print('ready'); sys.exit(3)")
    assert script.wait(PATIENCE) == Exit(3, None)
    assert bench.output.rest(0) == "ready\n"


def test_what_descendants_write_after_the_main_process_ended_confuses_nobody(bench: Bench) -> None:
    script = bench.start(
        """
def chatter():
    if os.fork() == 0:
        while True:
            try: print("still here")
            except BaseException: pass
daemon(chatter)
os.closerange(0, 256)
os._exit(4)
"""
    )
    reader = threading.Thread(target=bench.output.rest)
    reader.start()
    assert script.wait(PATIENCE) == Exit(4, None)
    reader.join(PATIENCE)
    assert not reader.is_alive()


def test_kill_returns_when_every_descendant_is_gone(bench: Bench) -> None:
    script = bench.start(
        """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
daemon(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
print("ready")
time.sleep(3600)
"""
    )
    assert bench.output.line() == "ready"
    script.terminate()
    assert script.wait(0.1) is None
    assert script.kill(PATIENCE) == Exit(None, signal.SIGKILL)
    assert bench.output.rest(0) == ""


def test_kill_outruns_a_script_that_forks_without_end(bench: Bench) -> None:
    script = bench.start(
        """
def breed():
    while True:
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
        else: os.wait()
for _ in range(4): daemon(lambda: os.fork() or breed())
print("ready")
time.sleep(3600)
"""
    )
    assert bench.output.line() == "ready"
    assert script.kill(PATIENCE) == Exit(None, signal.SIGKILL)
    assert bench.output.rest(0) == ""


def test_kill_may_be_called_while_other_threads_wait(bench: Bench) -> None:
    script = bench.start("time.sleep(3600)")
    ends: list[Exit | None] = []
    threads = [threading.Thread(target=lambda: ends.append(script.wait(PATIENCE))) for _ in range(4)]
    for thread in threads:
        thread.start()
    script.kill(PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)
    assert ends == [Exit(None, signal.SIGKILL)] * 4


def test_a_script_outlives_the_thread_that_started_it_and_dies_with_the_process(bench: Bench) -> None:
    with start_owner(bench) as owner:
        assert {bench.output.line(), bench.output.line()} == {"ready", "thread ended"}
        with pytest.raises(AssertionError, match="nothing came"):
            bench.output.rest(0.2)
        owner.kill()
        assert bench.output.rest() == ""


def start_owner(bench: Bench) -> "subprocess.Popen[bytes]":
    """A stand-in for an execution process, whose stdout its script and all of that one's descendants hold."""
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, bench.level, str(bench.root)],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=bench.output.writer,
    )


def test_nothing_is_left_when_the_launcher_is_killed(bench: Bench) -> None:
    script = bench.start("daemon(); print('ready'); time.sleep(3600)")
    assert bench.output.line() == "ready"
    watchers(script)[0].kill()
    assert script.wait(PATIENCE) == Exit(None, signal.SIGKILL)
    assert bench.output.rest() == ""


def test_nothing_is_left_when_the_launcher_is_killed_while_init_is_stopped() -> None:
    with open_bench(Level.NAMESPACE) as bench:
        script = bench.start("daemon(); print('ready'); time.sleep(3600)")
        assert bench.output.line() == "ready"
        launcher, init = watchers(script)
        init.suspend()
        launcher.kill()
        assert script.wait(PATIENCE) == Exit(None, signal.SIGKILL)
        assert bench.output.rest() == ""


def test_nothing_is_left_when_init_is_killed(bench: Bench) -> None:
    script = bench.start("daemon(); print('ready'); time.sleep(3600)")
    assert bench.output.line() == "ready"
    watchers(script)[1].kill()
    assert script.wait(PATIENCE) == Exit(None, signal.SIGKILL)
    assert bench.output.rest(0) == ""


def test_the_watchers_are_not_ended_by_signals_meant_for_the_owner(bench: Bench) -> None:
    script = bench.start("print('ready'); sys.stdin.read(); time.sleep(0.3); sys.exit(6)")
    bench.output.line()
    for process in watchers(script):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
    assert script.wait(PATIENCE) == Exit(6, None)


def test_orphans_that_end_are_reaped_while_the_script_runs(bench: Bench) -> None:
    script = bench.start(
        """
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
print("ready")
time.sleep(3600)
"""
    )
    bench.output.line()
    deadline = threading.Event()
    for _ in range(200):
        left = [process for process in script.tree() if process.pid != script.pid]
        if not left:
            break
        deadline.wait(0.01)
    assert left == []


def test_closing_every_descriptor_or_executing_another_program_changes_nothing(bench: Bench) -> None:
    closed = bench.start("os.closerange(0, 1024); time.sleep(0.1); os._exit(8)")
    executed = bench.start("os.execv('/bin/sh', ['sh', '-c', 'exit 9'])")
    assert closed.wait(PATIENCE) == Exit(8, None)
    assert executed.wait(PATIENCE) == Exit(9, None)


def test_the_tree_holds_daemonised_descendants_and_their_memory(bench: Bench) -> None:
    script = bench.start("daemon(lambda: globals().update(x=b'x' * 50_000_000)); print('ready'); time.sleep(3600)")
    bench.output.line()
    pids = {process.pid for process in script.tree()}
    assert script.pid in pids
    assert len(pids) == 2
    assert 50_000_000 < script.rss() < 150_000_000
    script.kill(PATIENCE)
    assert script.tree() == []
    assert script.rss() == 0


def test_a_missing_program_is_told_in_one_sentence(bench: Bench) -> None:
    with pytest.raises(SpawnError, match=r"^Cannot run /nowhere/python: No such file or directory\.$"):
        Script.spawn(bench.spec(["/nowhere/python"]))


def test_a_program_that_is_none_is_told_in_one_sentence(bench: Bench) -> None:
    with pytest.raises(SpawnError, match=r"^Cannot run /etc/passwd: Permission denied\.$"):
        Script.spawn(bench.spec(["/etc/passwd"]))


def test_a_missing_folder_is_told_in_one_sentence(bench: Bench) -> None:
    gone = replace(bench.spec([bench.python, "-c", "pass"]), folder=Path("/nowhere"))
    with pytest.raises(SpawnError, match=r"^Cannot enter the folder /nowhere: No such file or directory\.$"):
        Script.spawn(gone)


def test_a_failed_start_leaves_no_process_and_no_descriptor(bench: Bench) -> None:
    spec = bench.spec(["/nowhere/python"])
    before = (len(os.listdir("/proc/self/fd")), psutil.Process().children())
    for _ in range(3):
        with pytest.raises(SpawnError):
            Script.spawn(spec)
    assert (len(os.listdir("/proc/self/fd")), psutil.Process().children()) == before


def test_an_ended_and_closed_script_leaves_no_descriptor(bench: Bench) -> None:
    spec = bench.spec([bench.python, "-c", "pass"])
    before = len(os.listdir("/proc/self/fd"))
    with Script.spawn(spec) as script:
        script.wait(PATIENCE)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_path_that_cannot_be_bound_is_told_in_one_sentence() -> None:
    with open_bench(Level.NAMESPACE) as bench:
        bench.readonly = [Path("/nowhere/data")]
        with pytest.raises(SpawnError, match=r"/nowhere"):
            bench.start("pass")


def test_secrets_in_the_environment_never_stand_on_a_command_line(bench: Bench) -> None:
    with Script.spawn(bench.spec(["/bin/sleep", "3600"], env={"TOKEN": "s3cret"})) as script:
        for process in watchers(script):
            assert "s3cret" not in " ".join(process.cmdline())
            assert process.environ() == {}


def test_a_launcher_started_ahead_takes_the_next_script_and_no_other(bench: Bench) -> None:
    before = set(psutil.Process().children())
    Script.warm_up()
    Script.warm_up()
    (ahead,) = set(psutil.Process().children()) - before
    spec = bench.spec([bench.python, "-c", "print('out', flush=True); import sys; sys.exit(3)"])
    with Script.spawn(spec) as first:
        assert first.wait(PATIENCE) == Exit(3, None)
    assert not ahead.is_running()
    with Script.spawn(spec) as second:
        assert second.wait(PATIENCE) == Exit(3, None)


def test_a_launcher_started_ahead_ends_with_a_process_that_spawns_nothing() -> None:
    code = (
        "import os, psutil; from workers.process import Script; Script.warm_up();"
        "print(psutil.Process().children()[0].pid, flush=True); os._exit(0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(ran.stdout)).wait(PATIENCE)
