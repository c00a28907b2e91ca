"""The harness itself: what the other tests stand on."""

import pytest
from django.db import connection

from jobs.models import Installation, Job, ReaperLease
from jobs.states import JobState
from tests import factories, invariants


@pytest.mark.parametrize("state", JobState)
def test_the_factories_bring_a_job_to_every_state(state, real_commits):
    job = factories.job_in(state)
    assert Job.objects.get(pk=job.pk).state == state
    invariants.check()


@pytest.mark.parametrize("state", JobState)
def test_they_do_so_in_a_transaction_that_is_rolled_back(state, db):
    factories.job_in(state)
    invariants.check()


def test_committed_rows_are_gone_afterwards_and_the_single_ones_stay(real_commits):
    from tests import database

    uuid = Installation.objects.get().uuid
    factories.running()
    Installation.objects.update(queue_paused_at="2026-01-01T00:00Z")
    database.empty()
    assert not Job.objects.exists()
    assert Installation.objects.get().uuid == uuid
    assert Installation.objects.get().queue_paused_at is None
    assert ReaperLease.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_flush_of_djangos_keeps_the_single_rows():
    factories.running()


def test_and_so_they_are_there_for_the_next_test(db):
    assert Installation.objects.count() == 1
    assert ReaperLease.objects.count() == 1
    factories.running()


def test_the_database_is_postgresql_in_a_folder_of_this_test_run(db):
    assert connection.vendor == "postgresql"
    assert "rerail-" in connection.settings_dict["HOST"] + str(connection.settings_dict)
