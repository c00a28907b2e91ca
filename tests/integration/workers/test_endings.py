"""Stops, kills and restarts around a real worker."""

import signal

import psutil

from jobs import reaper
from jobs.commands.cancellation import cancel
from jobs.models import Checkpoint, Execution, Heartbeat, Worker
from tests import invariants
from tests.integration.workers.conftest import begin, ended, in_state, kinds, printed, says
from tests.waiting import eventually

PATIENT = """
    import signal, sys, time
    def save(*_):
        open("output/saved", "w").write("yes")
        print("saved", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
"""
ONCE_HANGING = """
    import os, time
    print("ready", flush=True)
    while os.environ["RERAIL_ATTEMPT"] == "1":
        time.sleep(0.05)
"""
LEAVING_A_GRANDCHILD = """
    import os, time
    if os.environ["RERAIL_ATTEMPT"] == "1":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(0)
        print("ready", flush=True)
        time.sleep(3600)
"""


def free(name: str = "w1") -> bool:
    return Worker.objects.filter(name=name, occupied_by=None).exists()


def test_a_cancelled_script_may_save_first_and_its_worker_is_free_again(start_worker):
    start_worker()
    job = begin(PATIENT)
    says(job, b"ready")
    cancel(job.pk, job.owner)
    assert ended(job).state == "CANCELLED"
    assert printed(job) == b"ready\nsaved\n"
    assert Checkpoint.objects.get(job=job).file_count == 1
    assert kinds(job)[-1] == "cancelled"
    eventually(free)
    invariants.check()


def test_a_script_that_ignores_the_request_is_killed_after_its_grace(start_worker):
    start_worker(RERAIL_STOP_GRACE_SECONDS="0.5")
    job = begin(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        time.sleep(3600)
        """
    )
    says(job, b"ready")
    cancel(job.pk, job.owner)
    assert ended(job).state == "CANCELLED"
    assert Execution.objects.get(job=job).signal == signal.SIGKILL


def test_a_worker_that_is_shut_down_hands_its_execution_back_without_charge(start_worker):
    worker = start_worker()
    job = begin(PATIENT)
    says(job, b"ready")
    assert worker.terminate() == 0
    job.refresh_from_db()
    assert (job.state, job.attempts_used) == ("QUEUED", 0)
    execution = Execution.objects.get(job=job)
    assert (execution.state, execution.reason, execution.charged) == ("RELEASED", "drained", False)
    assert Checkpoint.objects.filter(job=job).count() == 1
    assert free()
    invariants.check()


def test_an_execution_process_that_is_killed_is_reported_at_once_and_tried_again(start_worker):
    worker = start_worker()
    job = begin(ONCE_HANGING)
    says(job, b"ready")
    worker.execution_process.kill()
    assert ended(job).state == "SUCCEEDED"
    first, second = Execution.objects.filter(job=job).order_by("number")
    assert (first.state, first.reason, first.charged) == ("LOST", "worker_crashed", True)
    assert second.state == "SUCCEEDED"
    lost = kinds(job).index("worker_crashed")
    assert kinds(job)[lost : lost + 2] == ["worker_crashed", "requeued"]
    invariants.check()


def test_nothing_that_a_script_started_outlives_its_killed_execution_process(start_worker):
    worker = start_worker()
    job = begin(LEAVING_A_GRANDCHILD)
    says(job, b"ready")
    horse = worker.execution_process
    descendants = horse.children(recursive=True)
    assert len(descendants) >= 4, "launcher, init, script and its grandchild"
    horse.kill()
    assert ended(job).state == "SUCCEEDED"
    assert not [process for process in descendants if process.is_running()]


def test_a_killed_workers_execution_goes_on_and_the_next_worker_of_that_name_waits_for_it(start_worker):
    worker = start_worker()
    job = begin(
        """
        import os, time
        print("ready", flush=True)
        while not os.path.exists("output/go"):
            time.sleep(0.05)
        """
    )
    says(job, b"ready")
    horse = worker.execution_process
    worker.kill()
    successor = start_worker()
    assert horse.is_running()
    assert not free(), "its old execution still runs"
    _write_from_outside(horse, "go")
    assert ended(job).state == "SUCCEEDED"
    assert Execution.objects.filter(job=job).count() == 1
    eventually(free)
    assert successor.process.poll() is None
    invariants.check()


def _write_from_outside(horse: psutil.Process, name: str) -> None:
    """Put a file where the script looks for it."""
    script = next(process for process in horse.children(recursive=True) if "script.py" in " ".join(process.cmdline()))
    with open(f"/proc/{script.pid}/cwd/output/{name}", "w"):
        pass


def test_an_execution_that_died_with_its_worker_is_lost_as_soon_as_the_worker_returns(start_worker):
    worker = start_worker()
    job = begin(ONCE_HANGING)
    says(job, b"ready")
    horse = worker.execution_process
    worker.process.send_signal(signal.SIGSTOP)
    horse.kill()
    worker.kill()
    start_worker()
    assert ended(job).state == "SUCCEEDED"
    assert Execution.objects.get(job=job, number=1).reason == "worker_crashed"
    invariants.check()


def test_a_second_live_worker_of_a_name_is_refused_in_one_line(start_worker):
    start_worker()
    second = start_worker(online=False)
    assert second.process.wait(timeout=30) != 0
    lines = second.log.read_text().strip().splitlines()
    assert lines == ["CommandError: A worker named w1 is running on this machine already."]


def test_a_lost_lease_stops_the_old_script_while_the_job_goes_on_elsewhere(start_worker):
    start_worker("w1")
    job = begin(ONCE_HANGING)
    says(job, b"ready")
    first = Execution.objects.get(job=job)
    start_worker("w2")
    while not Heartbeat.objects.filter(execution=first).update(expires_at="2000-01-01T00:00Z"):
        pass
    while not reaper.sweep().findings:
        Heartbeat.objects.filter(execution=first).update(expires_at="2000-01-01T00:00Z")
    assert ended(job).state == "SUCCEEDED"
    first.refresh_from_db()
    assert (first.state, first.reason) == ("LOST", "lease_expired")
    assert Execution.objects.get(job=job, number=2).worker_name == "w2"
    eventually(lambda: free("w1"))
    invariants.check()


def test_what_rq_delivers_twice_runs_once(start_worker):
    from jobs import dispatch

    start_worker()
    job = begin("import time; print('once', flush=True); time.sleep(0.5)")
    in_state(job, "RUNNING")
    assert job.current_execution_id is not None
    for _ in range(2):
        dispatch.ring(job.current_execution_id, "w1")
    assert ended(job).state == "SUCCEEDED"
    after = ended(begin("print('next')"))
    assert printed(job) == b"once\n"
    assert kinds(job).count("started") == 1
    assert after.state == "SUCCEEDED"
