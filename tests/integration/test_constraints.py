"""What the database itself refuses, whoever writes: the last line behind the one door."""

import re
from enum import StrEnum

import pytest
from django.db import IntegrityError, connection, transaction

from jobs.models import Execution, Heartbeat, Job
from jobs.states import ACTIVE, FINAL, HELD, ExecutionState, JobState, Phase, Reason
from tests import database, factories

PINNED: dict[str, set[str]] = {
    "job_state_known": set(JobState),
    "job_reason_known": {*Reason, ""},
    "execution_state_known": set(ExecutionState),
    "execution_phase_known": {*Phase, ""},
    "execution_reason_known": {*Reason, ""},
    "execution_stop_reason_known": {*Reason, ""},
    "job_finished_iff_final": set(FINAL),
    "job_current_iff_held": set(HELD),
    "execution_finished_iff_ended": set(ACTIVE),
}


def definition(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s"
            " UNION SELECT indexdef FROM pg_indexes WHERE indexname = %s",
            [name, name],
        )
        ((text,),) = cursor.fetchall()
    return str(text)


def words_in(text: str) -> set[str]:
    return set(re.findall(r"'([^']*)'", text))


@pytest.mark.parametrize("name", PINNED)
def test_the_database_knows_the_same_words_as_the_table_of_states(name, db):
    assert words_in(definition(name)) == {str(value) for value in PINNED[name]}


@pytest.mark.parametrize("name", ["execution_one_active_per_job", "execution_one_active_per_worker"])
def test_what_counts_as_active_is_the_same_on_both_sides(name, db):
    text = definition(name)
    assert "UNIQUE" in text
    assert words_in(text) == {state.value for state in ACTIVE}


def test_every_column_that_holds_an_enumeration_is_wide_enough_for_it():
    for kind in (JobState, ExecutionState, Phase, Reason):
        assert issubclass(kind, StrEnum)
        assert max(map(len, kind)) <= 32


def refused(sql: str, *parameters) -> bool:
    try:
        with transaction.atomic():
            database.execute(sql, *parameters)
            database.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except IntegrityError:
        return True
    return False


def test_a_second_active_execution_of_a_job_or_a_worker_is_refused(db):
    job, other = factories.running(), factories.running()
    mine, theirs = factories.lease(job).execution_id, factories.lease(other).execution_id
    assert refused("UPDATE jobs_execution SET job_id = %s, number = 99 WHERE id = %s", job.pk, theirs)
    assert refused(
        "UPDATE jobs_execution SET worker_id = (SELECT worker_id FROM jobs_execution WHERE id = %s) WHERE id = %s",
        mine,
        theirs,
    )
    assert refused("UPDATE jobs_worker SET occupied_by_id = %s", mine), "one execution occupies one worker"


@pytest.mark.parametrize(
    "change",
    [
        "state = 'LOST_IN_SPACE'",
        "state = 'QUEUED'",
        "state = 'SUCCEEDED'",
        "state = 'FAILED', finished_at = now()",
        "finished_at = now()",
        "current_execution_id = NULL",
        "reason = 'bad luck'",
        "state = 'QUEUED', current_execution_id = NULL, queued_at = NULL",
    ],
)
def test_a_job_whose_columns_contradict_each_other_is_refused(change, db):
    factories.running()
    assert refused(f"UPDATE jobs_job SET {change}")


@pytest.mark.parametrize(
    "change",
    [
        "state = 'GONE'",
        "state = 'LOST'",
        "finished_at = now()",
        "nonce = NULL",
        "started_at = NULL",
        "phase = 'sleeping'",
        "reason = 'bad luck'",
        "stop_reason = 'bad luck'",
    ],
)
def test_an_execution_whose_columns_contradict_each_other_is_refused(change, db):
    factories.running()
    assert refused(f"UPDATE jobs_execution SET {change}")


def test_an_event_number_is_given_once(db):
    factories.queued()
    assert refused("UPDATE jobs_event SET seq = 1 WHERE seq = 2")


def test_a_beat_is_a_hot_update(real_commits):
    """No index on a column that a beat changes, and room in the page: or each beat would write every index."""
    from jobs.commands import executions

    lease = factories.lease(factories.running())
    database.execute("SELECT pg_stat_force_next_flush()")
    counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs_heartbeat'"

    def updates() -> tuple[int, int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(counts)
            all_, hot = cursor.fetchone()
        return all_, hot

    before = updates()
    for _ in range(100):
        executions.beat(lease)
    after = updates()
    assert after[0] - before[0] == 100
    assert after[1] - before[1] >= 95
    assert Heartbeat.objects.count() == Execution.objects.count() == Job.objects.count() == 1
