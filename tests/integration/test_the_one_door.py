"""Every edge of the table, taken from every state at the one door: what it changes, and that all else is refused."""

import uuid

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import transition
from jobs.errors import Refused, Stale
from jobs.models import Event, Execution, Heartbeat
from jobs.states import ACTIVE, EDGES, FINAL, HELD, Command, Edge, EventKind, JobState, edge
from jobs.timeline import Fact
from jobs.transition import Fence
from tests import database, factories

# Those two make rows of their own: they are walked with their commands.
DOOR = [each for each in EDGES if each.command not in {Command.SUBMIT, Command.ASSIGN}]
INSTEAD = [
    edge(each.command, source, JobState.CANCELLED)
    for each in DOOR
    if each.target is JobState.QUEUED and each.execution_target
    for source in sorted(each.sources)[:1]
]
ALLOWED = [(state, each) for each in DOOR + INSTEAD for state in sorted(each.sources)]
REFUSED = [(state, each) for each in DOOR + INSTEAD for state in JobState if state not in each.sources]


def named(value):
    return value.name if isinstance(value, Edge) else str(value)


def take(each: Edge, job, fence: Fence | None) -> int:
    facts = [Fact(kind=each.emits, message="One."), Fact(kind=EventKind.PHASE_CHANGED, message="Two.")]
    execution = {}
    if each.command is Command.START:
        execution = {"nonce": uuid.uuid4(), "started_at": Now()}
    columns = {"queued_at": Now()} if each.target is JobState.QUEUED else {}
    with transaction.atomic():
        return transition.take(
            each, job_id=job.pk, facts=facts, actor="test", fence=fence, job=columns, execution=execution
        )


def fence_of(job, each: Edge) -> Fence | None:
    if each.execution_target is None or job.current_execution is None:
        return None
    return Fence(execution_id=job.current_execution_id, nonce=job.current_execution.nonce)


@pytest.mark.parametrize(("state", "each"), ALLOWED, ids=named)
def test_an_edge_changes_its_job_its_execution_the_lease_and_the_timeline_and_nothing_else(state, each, db):
    job, bystander = factories.job_in(state), factories.running()
    fence = fence_of(job, each)
    before = database.rows()
    last_seq = take(each, job, fence)
    changed = database.changes(before, database.rows())
    was = job.last_seq
    job.refresh_from_db()

    assert job.state == each.target
    assert job.last_seq == last_seq == was + 2
    assert list(Event.objects.filter(job=job, seq__gt=was).values_list("seq", "kind", "actor")) == [
        (was + 1, each.emits, "test"),
        (was + 2, "phase_changed", "test"),
    ]
    assert (job.finished_at is not None) == (each.target in FINAL)
    assert (job.current_execution_id is not None) == (each.target in HELD)
    expected = {"job": 1, "event": 2}
    if each.execution_target is not None and fence is not None:
        execution = Execution.objects.get(pk=fence.execution_id)
        assert execution.state == each.execution_target
        assert (execution.finished_at is not None) == (each.execution_target not in ACTIVE)
        assert Heartbeat.objects.filter(execution=execution).exists() == (each.execution_target in ACTIVE)
        expected |= {"execution": 1} | ({} if each.execution_target in ACTIVE else {"heartbeat": 1})
    assert changed == expected
    bystander.refresh_from_db()
    assert bystander.state == JobState.RUNNING


@pytest.mark.parametrize(("state", "each"), REFUSED, ids=named)
def test_an_edge_that_does_not_start_here_is_refused_and_changes_nothing(state, each, db):
    job = factories.job_in(state)
    before = database.rows()
    with pytest.raises(Refused):
        take(each, job, fence_of(job, each))
    assert database.rows() == before


@pytest.mark.parametrize(("state", "each"), [pair for pair in ALLOWED if pair[1].execution_target], ids=named)
def test_an_edge_of_another_execution_than_the_current_one_is_stale(state, each, db):
    job, other = factories.job_in(state), factories.job_in(state)
    before = database.rows()
    with pytest.raises(Stale):
        take(each, job, fence_of(other, each))
    assert database.rows() == before


@pytest.mark.parametrize(
    ("state", "each"), [pair for pair in ALLOWED if pair[1].fenced and pair[0] == JobState.RUNNING], ids=named
)
def test_a_fenced_edge_of_another_process_than_the_one_that_started_is_stale(state, each, db):
    job = factories.job_in(state)
    before = database.rows()
    with pytest.raises(Stale):
        take(each, job, Fence(execution_id=factories.lease(job).execution_id, nonce=uuid.uuid4()))
    assert database.rows() == before


def test_no_edge_is_taken_outside_a_transaction(real_commits):
    job = factories.queued()
    with pytest.raises(AssertionError, match="commit with the state"):
        transition.take(
            edge(Command.CANCEL, JobState.QUEUED, JobState.CANCELLED), job_id=job.pk, facts=[], actor="test"
        )
    with pytest.raises(AssertionError, match="commit with the state"):
        transition.note(job_id=job.pk, facts=[], actor="test")


def test_a_state_change_that_is_rolled_back_takes_its_events_along(real_commits):
    job = factories.queued()
    before = database.rows()

    def cancel_and_fall_over() -> None:
        with transaction.atomic():
            facts = [Fact(kind=EventKind.CANCELLED, message="Cancelled.")]
            cancel = edge(Command.CANCEL, JobState.QUEUED, JobState.CANCELLED)
            transition.take(cancel, job_id=job.pk, facts=facts, actor="test")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        cancel_and_fall_over()
    assert database.rows() == before
