"""Promise 12: what is done all the time costs what there is to do, not what was ever done.

PostgreSQL is asked for its plans over tables that hold thousands of ended jobs beside a few living ones, and how many
rows it really touched.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from jobs import dispatch, reaper
from jobs.commands import executions
from jobs.models import Job
from tests import database, factories

ENDED = 6_000


@pytest.fixture
def history(real_commits) -> Iterator[None]:
    """Thousands of jobs that have ended, each with an execution and three events, and statistics of them."""
    owner = factories.user()
    database.execute(
        """
        INSERT INTO jobs_job (owner_id, name, labels, priority, gpus, gpu_memory_mb, ram_mb, disk_mb, worker_labels,
            max_attempts, retry_on, dedupe_key, dataset_ref, state, attempt, attempts_used, unstarted_in_row,
            queued_at, finished_at, reason, message, last_seq, last_checkpoint_n)
        SELECT %s, 'old', '{}', 0, 0, 0, 0, 0, '{}', 3, '{lost}', '', '', 'SUCCEEDED', 1, 1, 0, now(), now(), '', '',
            3, 0
        FROM generate_series(1, %s)
        """,
        owner.pk,
        ENDED,
    )
    database.execute(
        """
        INSERT INTO jobs_execution (job_id, number, worker_name, state, phase, training_seconds, finished_at,
            stop_reason, reason, message, charged, log_bytes, metrics_bytes)
        SELECT id, 1, 'old', 'SUCCEEDED', '', 0, now(), '', '', '', true, 0, 0 FROM jobs_job
        """
    )
    database.execute(
        """
        INSERT INTO jobs_event (job_id, seq, kind, message, reason, details, actor, at)
        SELECT id, n, 'phase_changed', 'x', '', '{}', 'x', now() FROM jobs_job, generate_series(1, 3) n
        """
    )
    database.execute("ANALYZE")
    yield
    tables = ", ".join(database._tables())
    database.execute(f"TRUNCATE {tables} CASCADE")


def rows_read(sql: str) -> int:
    """How many rows the statement made PostgreSQL read from tables and indexes, those that it dropped included."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (answer,) = cursor.fetchone()
    (plan,) = json.loads(answer) if isinstance(answer, str) else answer
    return sum(_read(node) for node in _nodes(plan["Plan"]))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def _read(node: dict[str, Any]) -> int:
    if "Scan" not in node["Node Type"] or node["Node Type"] in {"Subquery Scan", "CTE Scan", "Function Scan"}:
        return 0
    dropped = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    rows: int = round((node["Actual Rows"] + dropped) * node["Actual Loops"])
    return rows


def reads(statements: list[str]) -> dict[str, int]:
    """Rows read by each of the SELECTs and UPDATEs in `statements`, run again."""
    found = {}
    for sql in statements:
        if re.match(r"(SELECT|UPDATE|\s*SELECT|\s*UPDATE)", sql):
            connection.set_autocommit(False)
            try:
                found[sql] = rows_read(sql)
            finally:
                connection.rollback()
                connection.set_autocommit(True)
    return found


def affordable(statements: list[str], most: int) -> None:
    costs = reads(statements)
    assert costs
    too_dear = {sql[:200]: cost for sql, cost in costs.items() if cost > most}
    assert not too_dear


def test_a_sweep_with_nothing_to_do_reads_no_history(history, statements):
    for _ in range(3):
        factories.running()
    with statements() as seen:
        reaper.sweep()
        reaper.seconds_to_next_expiry()
    affordable(seen, 60)


def test_a_sweep_that_requeues_reads_no_history(history, statements):
    factories.running()
    factories.assigned()
    database.execute("UPDATE jobs_heartbeat SET expires_at = now() - interval '1 second'")
    with statements() as seen:
        assert len(reaper.sweep(dry_run=True).findings) == 2
    affordable(seen, 60)


def test_dispatch_reads_what_waits_and_what_is_free(history, statements):
    factories.running()
    factories.queued()
    factories.online()
    factories.submitted(worker_labels={"nobody": "either"})
    with statements() as seen:
        dispatch.run()
        dispatch._assign_next()
    affordable(seen, 60)


def test_the_steps_of_a_job_read_no_history(history, statements):
    with statements() as seen:
        lease = factories.lease(factories.assigned(max_attempts=1))
        executions.start(lease)
        executions.beat(lease)
        executions.crashed(lease.execution_id, "w", "It is gone.")
    affordable([sql for sql in seen if "jobs_" in sql], 60)


def test_pages_of_lists_and_of_a_timeline_are_read_by_an_index(history, statements):
    newest, owner = Job.objects.latest("pk"), Job.objects.earliest("pk").owner
    with statements() as seen:
        list(Job.objects.order_by("-id")[:50])
        list(Job.objects.filter(owner=owner, pk__lt=newest.pk).order_by("-id")[:50])
        list(Job.objects.filter(state="SUCCEEDED", pk__lt=newest.pk).order_by("-id")[:50])
        list(newest.events.filter(seq__gt=1).order_by("seq")[:50])
        list(newest.executions.order_by("number")[:50])
    affordable(seen, 60)


def test_a_long_queue_of_jobs_without_a_timeout_costs_a_sweep_nothing(history, statements):
    database.execute("UPDATE jobs_job SET state = 'QUEUED', finished_at = NULL WHERE id %% 2 = 0")
    database.execute("ANALYZE jobs_job")
    with statements() as seen:
        assert reaper.sweep(dry_run=True).findings == ()
    affordable(seen, 60)
