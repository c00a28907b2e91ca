"""What becomes of scripts that a real worker runs."""

import json

from jobs.models import Checkpoint, Execution, MetricPoint
from jobs.storage import artifacts, manifests
from tests import invariants
from tests.integration.workers.conftest import ended, kinds, printed


def test_a_script_that_exits_0_succeeds_and_its_job_tells_every_station(run):
    job = run("print('hello')")
    assert job.state == "SUCCEEDED"
    assert printed(job) == b"hello\n"
    assert kinds(job) == [
        "submitted", "queued", "assigned", "started", "phase_changed", "phase_changed", "checkpoint_saved", "succeeded",
    ]  # fmt: skip
    assert Execution.objects.get(job=job).exit_code == 0
    invariants.check()


def test_a_script_that_exits_3_fails_with_its_code(run):
    job = run("import sys; print('no'); sys.exit(3)")
    assert (job.state, job.reason, job.message) == ("FAILED", "script_error", "The script exited with code 3.")
    assert Execution.objects.get(job=job).exit_code == 3
    assert kinds(job)[-1] == "failed"
    assert "execution_failed" not in kinds(job)


def test_a_script_killed_by_a_signal_fails_with_the_signal(run):
    job = run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (job.state, job.reason) == ("FAILED", "killed_by_signal")
    assert job.message == "The script was killed by SIGSEGV."
    assert Execution.objects.get(job=job).signal == 11


def test_a_syntax_error_shows_in_the_log_as_python_tells_it(run):
    job = run("print('unfinished")
    assert (job.state, job.reason) == ("FAILED", "script_error")
    assert b"SyntaxError" in printed(job)


def test_the_log_holds_the_very_bytes_of_both_outputs(run):
    job = run(
        """
        import os
        os.write(1, b"caf\\xc3")
        os.write(2, b"\\xa9 \\xff\\x00\\n" + bytes(range(256)) * 4000)
        """
    )
    assert job.state == "SUCCEEDED"
    assert printed(job) == b"caf\xc3" + b"\xa9 \xff\x00\n" + bytes(range(256)) * 4000


def test_arguments_and_environment_arrive_and_nothing_of_the_service_does(run, monkeypatch):
    job = run(
        "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))",
        args=["--rate", "0.1", "ü"],
        env={"GREETING": "hi"},
    )
    arguments, environment = json.loads(printed(job))
    assert arguments == ["--rate", "0.1", "ü"]
    assert environment["GREETING"] == "hi"
    assert environment["RERAIL_EXECUTION"] == f"{job.pk}.1"
    assert environment["RERAIL_RESUMED"] == "0"
    assert not {"DATABASE_URL", "REDIS_URL", "RERAIL_DATA_DIR", "RERAIL_TEST_RUN"} & set(environment)


def test_metrics_become_progress_and_series_and_rubbish_is_passed_over(run):
    job = run(
        """
        import os, rerail
        for epoch in rerail.progress(range(3)):
            rerail.log(step=epoch + 1, loss=1 / (epoch + 1))
        with open(os.environ["RERAIL_METRICS"], "ab") as file:
            file.write(b'not json\\n[1]\\n{"step": "x", "word": "y"}\\n\\xff\\n' + b'{' * 100000 + b'\\n')
            file.write(b'{"step": 3, "accuracy": 0.9}')
        """
    )
    assert job.state == "SUCCEEDED"
    execution = Execution.objects.get(job=job)
    assert (execution.step, execution.total) == (3, 3)
    points = MetricPoint.objects.filter(execution=execution).values_list("key", "step", "value")
    assert sorted(points) == [("accuracy", 3, 0.9), ("loss", 1, 1.0), ("loss", 2, 0.5), ("loss", 3, 1 / 3)]


def test_output_is_published_as_one_checkpoint_and_can_be_had_back(run):
    job = run("import os; os.mkdir('output/sub'); open('output/sub/model', 'w').write('weights'); open('x', 'w')")
    checkpoint = Checkpoint.objects.get(job=job)
    assert (checkpoint.n, checkpoint.file_count, checkpoint.total_bytes, checkpoint.final) == (1, 1, 7, True)
    assert job.latest_checkpoint == checkpoint
    assert [entry["path"] for entry in manifests.files(checkpoint)] == ["sub/model"]
    assert b"".join(artifacts.open_file(checkpoint, "sub/model").chunks()) == b"weights"


def test_what_a_failed_attempt_saved_is_there_in_the_next(run):
    from jobs.commands.requeueing import requeue

    job = run(
        """
        import os, rerail, sys
        if not rerail.resumed():
            open("output/state", "w").write("half way")
            sys.exit(1)
        print(open("output/state").read(), os.environ["RERAIL_ATTEMPT"], os.environ["RERAIL_RESUMED"])
        open("output/state", "w").write("done")
        """
    )
    assert job.state == "FAILED"
    requeue(job.pk, job.owner)
    assert ended(job).state == "SUCCEEDED"
    assert printed(job) == b"half way 2 1\n"
    assert "checkpoint_restored" in kinds(job)
    assert Execution.objects.get(job=job, number=2).resumed_from == Checkpoint.objects.get(job=job, n=1)


def test_dependencies_that_cannot_be_resolved_fail_the_setup_with_the_resolvers_words(start_worker, run):
    start_worker(UV_NO_INDEX="1")
    job = run(
        """
        # /// script
        # dependencies = ["rerail-no-such-package"]
        # ///
        print("never")
        """
    )
    assert (job.state, job.reason) == ("FAILED", "setup_failed")
    assert "rerail-no-such-package" in job.message
    assert b"rerail-no-such-package" in printed(job)
    assert b"never" not in printed(job)


def test_a_script_past_its_time_limit_is_asked_to_stop_and_fails(run):
    job = run(
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("saving"), sys.exit(0)))
        while True:
            time.sleep(0.05)
        """,
        time_limit_seconds=0.5,
    )
    assert (job.state, job.reason) == ("FAILED", "time_limit")
    assert "time_limit_reached" in kinds(job)
    assert printed(job) == b"saving\n"
