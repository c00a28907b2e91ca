"""The time limit of uploads, and what races it: on real connections, with one outcome each."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from jobs import reaper
from jobs.commands import cancellation, datasets, requeueing
from jobs.errors import Refused
from jobs.models import Dataset, DatasetUpload, Job
from tests import database, factories, invariants
from tests.integration.storage import children

ROUNDS = 30


@pytest.fixture(autouse=True)
def folder(settings, tmp_path, real_commits):
    options = {"location": str(tmp_path / "storage")}
    backend = {"BACKEND": "jobs.storage.local.LocalStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    return tmp_path / "storage"


def files(folder) -> list[Any]:
    return [path for path in folder.rglob("*") if path.is_file()]


def overdue(job: Job) -> None:
    database.execute("UPDATE jobs_job SET dataset_deadline = now() - interval '1 second' WHERE id = %s", job.pk)


class Paused(factories.Sent):
    """Sends its first chunk, then waits to be told to go on."""

    def __init__(self, *chunks: bytes) -> None:
        super().__init__(*chunks)
        self.begun, self.go = threading.Event(), threading.Event()

    def chunks(self) -> Iterator[bytes]:
        for chunk in super().chunks():
            yield chunk
            self.begun.set()
            assert self.go.wait(30)


def test_a_job_whose_dataset_does_not_come_in_time_fails():
    job = factories.awaiting_dataset()
    assert not reaper.sweep().findings
    overdue(job)
    assert [finding.action for finding in reaper.sweep(dry_run=True).findings] == ["expire_dataset"]
    assert [finding.action for finding in reaper.sweep().findings] == ["expire_dataset"]
    job.refresh_from_db()
    assert (job.state, job.reason, job.message) == ("FAILED", "dataset_timeout", "No dataset came for 600 s.")
    assert list(job.events.values_list("kind", flat=True)) == ["submitted", "dataset_expired", "failed"]
    invariants.check()


def test_a_job_whose_dataset_never_came_waits_for_it_again_when_requeued():
    job = factories.awaiting_dataset()
    overdue(job)
    reaper.sweep()
    requeueing.requeue(job.pk, job.owner)
    assert not reaper.sweep().findings
    datasets.upload(job.pk, job.owner, factories.Sent(b"late"))
    job.refresh_from_db()
    assert job.state == "QUEUED"
    invariants.check()


def test_an_upload_races_its_time_limit_and_has_one_outcome(crew, folder):
    for _ in range(ROUNDS):
        job = factories.awaiting_dataset()
        sent = Paused(b"1,2")
        upload = crew.start(partial(datasets.upload, job.pk, job.owner, sent))
        assert sent.begun.wait(30)
        overdue(job)
        _, sweep = crew.together([sent.go.set, reaper.sweep])
        try:
            upload.result()
            assert (Job.objects.get(pk=job.pk).state, len(sweep.findings)) == ("QUEUED", 0)
            assert len(files(folder)) == Dataset.objects.count() == 1
        except Refused:
            assert (Job.objects.get(pk=job.pk).state, len(sweep.findings)) == ("FAILED", 1)
            assert not files(folder)
        reaper.sweep()
        assert not DatasetUpload.objects.exists()
        assert len(files(folder)) == Dataset.objects.count()
        invariants.check()
        for file in files(folder):
            file.unlink()
        database.empty()


def test_two_uploads_race_and_one_is_kept(crew, folder):
    for _ in range(ROUNDS):
        job = factories.awaiting_dataset()
        outcomes = crew.together([partial(datasets.upload, job.pk, job.owner, factories.Sent(b"x"))] * 2)
        assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [Refused]
        assert len(files(folder)) == Dataset.objects.count() == 1
        files(folder)[0].unlink()
        database.empty()


def test_a_cancel_in_the_middle_of_an_upload_refuses_it_and_nothing_stays(crew, folder):
    job = factories.awaiting_dataset()
    sent = Paused(b"1,2")
    upload = crew.start(partial(datasets.upload, job.pk, job.owner, sent))
    assert sent.begun.wait(30)
    cancellation.cancel(job.pk, job.owner)
    reaper.sweep()
    sent.go.set()
    with pytest.raises(Refused):
        upload.result()
    assert not files(folder)
    assert not DatasetUpload.objects.exists()


def test_bytes_that_flow_put_the_limit_off_and_a_silent_sender_notices_a_cancel(settings):
    settings.RERAIL = factories.changed(settings.RERAIL, dataset_timeout=0.04)
    job = factories.awaiting_dataset()
    seen = [job.dataset_deadline]

    class Slow(factories.Sent):
        def chunks(self) -> Iterator[bytes]:
            for _ in range(4):
                threading.Event().wait(0.02)
                yield b"x"
                seen.append(Job.objects.get(pk=job.pk).dataset_deadline)
            cancellation.cancel(job.pk, job.owner)
            threading.Event().wait(0.02)
            yield b"x"
            pytest.fail("The next chunk was asked for.")

    with pytest.raises(Refused):
        datasets.upload(job.pk, job.owner, Slow())
    assert seen == sorted(seen)  # type: ignore[type-var]
    assert len(set(seen)) > 2


def test_what_a_killed_upload_left_is_collected(folder):
    job = factories.awaiting_dataset()

    def die() -> None:
        children.die_after(100_000)
        datasets.upload(job.pk, job.owner, factories.Sent(bytes(60_000), bytes(60_000)))

    assert children.wait(children.fork(die)) == -9
    assert len(files(folder)) == 1
    reaper.sweep()
    assert len(files(folder)) == 1, "its sender may still be at it, for all the reaper knows"
    cancellation.cancel(job.pk, job.owner)
    reaper.sweep()
    assert not files(folder)
    assert not DatasetUpload.objects.exists()


def test_a_shared_dataset_whose_sender_fell_silent_is_collected_and_never_kept(folder, crew):
    owner = factories.user()
    sent = Paused(b"1,2")
    sent.fields["name"] = "digits"
    share = crew.start(partial(datasets.share, owner, sent))
    assert sent.begun.wait(30)
    database.execute("UPDATE jobs_datasetupload SET touched_at = now() - interval '1 day'")
    reaper.sweep()
    sent.go.set()
    with pytest.raises(Refused):
        share.result()
    assert not files(folder)
    assert not Dataset.objects.exists()


def test_an_upload_takes_little_memory(folder):
    job = factories.awaiting_dataset()
    sent = factories.Sent(*[bytes(256 * 1024)] * 800)
    assert children.growth(lambda: datasets.upload(job.pk, job.owner, sent)) < 32 * 1024 * 1024
