"""How many SQL statements the steps of a job cost; dispatch, which follows a commit, is counted apart."""

from collections.abc import Callable

from django.db import transaction
from django.db.models.functions import Now

from jobs import dispatch
from jobs.commands import checkpoints, executions, logs, metrics, submission
from jobs.commands.checkpoints import Snapshot
from jobs.commands.executions import Lease
from jobs.commands.metrics import Progress
from jobs.commands.submission import Submission
from jobs.models import Installation, Job
from jobs.states import Phase, Reason
from tests import factories


def test_submitting_takes_at_most_four(real_commits, statements):
    owner = factories.user()
    with transaction.atomic(), statements() as seen:
        submission.submit(owner, Submission(script="pass"))
    assert 1 <= len(seen) <= 4, seen


def test_assigning_takes_at_most_six(real_commits, statements):
    Installation.objects.update(queue_paused_at=Now())
    factories.online()
    factories.submitted()
    Installation.objects.update(queue_paused_at=None)
    with statements() as seen:
        assert dispatch._assign_next()
    assert 1 <= len(seen) <= 6, seen


def test_looking_for_work_that_is_not_there_takes_one(real_commits, statements):
    factories.online()
    with statements() as seen:
        assert dispatch.run() == 0
    assert len(seen) == 1, seen


def test_starting_takes_at_most_four(real_commits, statements):
    lease = factories.lease(factories.assigned())
    with statements() as seen:
        executions.start(lease)
    assert 1 <= len(seen) <= 4, seen


def test_a_beat_takes_one(real_commits, statements):
    lease = factories.lease(factories.running())
    with statements() as seen:
        executions.beat(lease)
    assert len(seen) == 1, seen


def test_every_end_takes_at_most_six(real_commits, statements):
    def ended(job: Job, end: Callable[[Lease], object]) -> list[str]:
        lease = factories.lease(job)
        Installation.objects.update(queue_paused_at=Now())
        with transaction.atomic(), statements() as seen:
            end(lease)
        Installation.objects.update(queue_paused_at=None)
        return list(seen)

    def fail(lease: Lease) -> None:
        executions.fail(lease, factories.failure(Reason.DISK_FULL))

    ends = {
        "succeed": ended(factories.running(), executions.succeed),
        "fail": ended(factories.running(retry_on=frozenset()), fail),
        "fail and retry": ended(factories.running(), fail),
        "fail, exhausted": ended(factories.running(max_attempts=1), fail),
        "stop": ended(factories.running(), executions.stop),
        "release": ended(factories.running(), executions.release),
    }
    too_many = {name: seen for name, seen in ends.items() if not 1 <= len(seen) <= 6}
    assert not too_many


def test_what_is_sent_all_the_time_is_cheap(real_commits, statements):
    lease = factories.lease(factories.running())
    snapshot = Snapshot(manifest_key="m", file_count=1, total_bytes=1, new_bytes=1, step=1, final=False)
    for most, write in (
        (2, lambda: logs.append(lease, 0, b"x")),
        (3, lambda: metrics.append(lease, 0, 1, [factories.point(1)] * 100, Progress(step=1, total=2, rate=None))),
        (4, lambda: executions.change_phase(lease, Phase.TRAINING)),
        (5, lambda: checkpoints.commit(lease, snapshot)),
    ):
        with statements() as seen:
            write()
        assert len(seen) <= most, seen
