"""The documentation of states is the table, and events hold what it says."""

import pytest
from django.conf import settings

from jobs.commands import checkpoints, edits, executions, requeueing
from jobs.commands.checkpoints import Snapshot
from jobs.console import states_page
from jobs.event_kinds import MEANINGS
from jobs.models import Event, Priority
from jobs.states import EDGES, EventKind, JobState, Reason
from tests import factories

PAGE = settings.BASE_DIR / "docs" / "states.md"


def test_the_committed_page_is_what_the_table_says():
    assert PAGE.read_text("utf-8") == states_page.text(), "run manage.py describe_states"


def test_a_stale_page_is_noticed(manage, monkeypatch, tmp_path):
    page = tmp_path / "states.md"
    monkeypatch.setattr("jobs.management.commands.describe_states.PAGE", page)

    assert manage("describe_states", "--check")[0] == 1
    assert manage("describe_states")[0] == 0
    assert manage("describe_states", "--check")[0] == 0
    page.write_text(page.read_text("utf-8") + "By hand.\n", "utf-8")
    assert manage("describe_states", "--check")[0] == 1


def test_the_page_names_every_edge_reason_and_kind():
    page = states_page.text()

    for edge in EDGES:
        assert f"| `{edge.command}` | " in page
    for member in (*JobState, *Reason, *EventKind):
        assert f"`{member}`" in page


def test_every_kind_has_a_meaning():
    assert set(MEANINGS) == set(EventKind)


@pytest.mark.django_db
def test_the_details_of_events_are_the_documented_ones():
    for state in JobState:
        factories.job_in(state)
    job = factories.training()
    lease = factories.lease(job)
    snapshot = Snapshot(manifest_key="m", file_count=1, total_bytes=2, new_bytes=2, step=3, final=False)
    saved = checkpoints.commit(lease, snapshot)
    checkpoints.restored(lease, saved, seconds=0.1)
    checkpoints.rejected(lease, saved, "It is torn.")
    executions.time_limit_reached(lease, 5.0)
    edits.edit(job.pk, job.owner, priority=Priority.HIGH)
    ended = factories.failed(max_attempts=1)
    requeueing.requeue(ended.pk, ended.owner)
    retried = factories.running(retry_on=frozenset({"failed"}))
    executions.fail(factories.lease(retried), factories.failure())

    found = Event.objects.values_list("kind", "details")

    assert {kind for kind, _ in found} > {"checkpoint_saved", "execution_failed", "priority_changed"}
    for kind, details in found:
        assert set(details) <= set(MEANINGS[EventKind(kind)].details), kind
