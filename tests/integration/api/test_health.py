"""GET /healthz, /readyz and /metrics."""

from collections.abc import Iterator

import pytest
from django.conf import settings as django_settings
from django.db.migrations.recorder import MigrationRecorder

from jobs import reaper
from jobs.models import ReaperLease
from jobs.selectors import health
from jobs.sql import in_seconds
from tests import factories


@pytest.fixture
def no_database(django_db_blocker) -> Iterator[None]:
    """Each query fails, as it would without a server."""
    with django_db_blocker.block():
        yield


def test_the_process_answers_without_asking_anybody(client, no_database) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


def test_all_is_ready_once_the_reaper_has_swept(redis, db, client) -> None:
    reaper.sweep()
    response = client.get("/readyz")
    assert response.status_code == 200, response.content
    assert set(response.json()["checks"]) == {"database", "redis", "storage", "migrations", "reaper"}


def broken(client) -> list[str]:
    response = client.get("/readyz")
    assert response.status_code == 503
    return [name for name, check in response.json()["checks"].items() if not check["ok"]]


def test_a_reaper_that_sleeps_is_told(redis, db, client) -> None:
    assert broken(client) == ["reaper"]
    reaper.sweep()
    ReaperLease.objects.update(swept_at=in_seconds(-60))
    assert broken(client) == ["reaper"]


def test_redis_away_is_told(redis, db, client, settings) -> None:
    reaper.sweep()
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    assert broken(client) == ["redis"]


def test_storage_that_cannot_be_written_is_told(redis, db, client, monkeypatch, tmp_path) -> None:
    from django.core.files.storage import FileSystemStorage

    reaper.sweep()
    (tmp_path / "file").touch()
    monkeypatch.setattr(health, "default_storage", FileSystemStorage(tmp_path / "file" / "below"))
    assert broken(client) == ["storage"]


def test_a_migration_that_is_missing_is_told(redis, db, client) -> None:
    reaper.sweep()
    health._migrations.cache_clear()
    latest = MigrationRecorder.Migration.objects.filter(app="jobs").order_by("-id")[:1]
    MigrationRecorder.Migration.objects.filter(pk__in=latest.values("pk")).delete()
    assert broken(client) == ["migrations"]


def test_the_database_away_is_told(client, redis, no_database) -> None:
    health._migrations.cache_clear()
    assert broken(client) == ["database", "migrations", "reaper"]


def test_metrics_count_what_has_not_ended_and_the_workers(redis, db, client) -> None:
    factories.queued()
    factories.running()
    factories.succeeded()
    lines = client.get("/metrics").content.decode().splitlines()
    assert 'rerail_jobs{state="QUEUED"} 1.0' in lines
    assert 'rerail_jobs{state="RUNNING"} 1.0' in lines
    assert 'rerail_workers{state="BUSY"} 1.0' in lines
    assert 'rerail_workers{state="IDLE"} 1.0' in lines
    assert "rerail_reaper_sweep_age_seconds +Inf" in lines
    assert not any("SUCCEEDED" in line for line in lines)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_watching_is_reading(client, path: str) -> None:
    assert client.post(path).status_code == 405


def test_the_limit_of_freshness_is_beyond_a_lease() -> None:
    assert django_settings.RERAIL.timing.lease < 60
