"""Checkpoints of a real worker's execution: taken while the script trains, and gone on from after it died."""

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
