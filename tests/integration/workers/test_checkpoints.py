"""Checkpoints of a real worker's execution: taken while the script trains, and gone on from after it died."""

import textwrap

from jobs.commands.requeueing import requeue
from jobs.commands.submission import Submission, submit
from jobs.models import Checkpoint, Execution
from tests import invariants
from tests.integration.workers.conftest import begin, ended, kinds, printed, says
from tests.waiting import eventually

ASKING = """
    import os, rerail, time
    if not rerail.resumed():
        open("output/state", "w").write("epoch 3")
        rerail.log(step=3)
        print("stored", rerail.checkpoint(wait=True), flush=True)
        open("output/state", "w").write("never stored")
        while True:
            time.sleep(0.05)
    print(open("output/state").read())
"""


def test_a_killed_attempt_is_gone_on_from_the_checkpoint_that_its_script_asked_for(start_worker):
    worker = start_worker()
    job = begin(ASKING)
    says(job, b"stored True\n")
    checkpoint = Checkpoint.objects.get(job=job)
    assert (checkpoint.n, checkpoint.step, checkpoint.final) == (1, 3, False)
    worker.execution_process.kill()
    assert ended(job).state == "SUCCEEDED"
    assert printed(job) == b"epoch 3\n"
    second = Execution.objects.get(job=job, number=2)
    assert second.resumed_from == checkpoint
    assert second.lost_work_seconds is not None
    assert second.lost_work_seconds > 0
    invariants.check()


def test_a_running_script_is_snapshotted_by_itself_and_failing_storage_does_not_stop_it(start_worker, tmp_path):
    storage = tmp_path / "storage"
    storage.write_text("in the way")
    start_worker(RERAIL_STORAGE_URL=f"file://{storage}")
    job = begin(
        """
        import time
        open("output/state", "w").write("1")
        time.sleep(3)
        """,
        checkpoint_seconds=0.3,
    )
    eventually(lambda: "checkpoint_failed" in kinds(job))
    storage.unlink()
    assert ended(job).state == "SUCCEEDED"
    assert kinds(job).count("checkpoint_failed") == 1
    assert Checkpoint.objects.filter(job=job, final=True).count() == 1


def test_an_ended_job_goes_on_from_a_named_checkpoint_and_another_begins_from_it(start_worker):
    start_worker()
    script = """
        import os, rerail
        old = open("output/state").read() if rerail.resumed() else ""
        print("found", old, flush=True)
        open("output/state", "w").write(old + os.environ["RERAIL_JOB_ID"])
        rerail.checkpoint(wait=True)
        open("output/state", "w").write("end")
    """
    job = ended(begin(script))
    first = f"{job.pk}/1"
    fork = ended(submit(job.owner, Submission(script=textwrap.dedent(script), from_checkpoint=first)))
    assert printed(fork) == f"found {job.pk}\n".encode()
    assert Execution.objects.get(job=fork).resumed_from == Checkpoint.objects.get(job=job, n=1)
    requeue(job.pk, job.owner, first)
    assert ended(job).state == "SUCCEEDED"
    assert printed(job) == f"found {job.pk}\n".encode()
    second = Execution.objects.get(job=job, number=2)
    assert second.resumed_from == Checkpoint.objects.get(job=job, n=1)
    written = Checkpoint.objects.filter(job=job).values_list("n", "execution__number", "final")
    assert list(written) == [(1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True)]
    invariants.check()
