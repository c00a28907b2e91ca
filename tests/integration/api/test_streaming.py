"""Uploads through the real web server: handed on as they come, and never collected."""

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connection

from jobs.commands import cancellation, tokens
from jobs.models import Dataset, DatasetUpload, Job
from tests import factories
from tests.waiting import eventually

MIB = 1024 * 1024
SIZE = 160 * MIB


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self._path)


class Web:
    """A web server of this test's own, with somebody's token."""

    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        self.address, self.process = address, process
        self.person = factories.user()
        self.headers = {"Authorization": f"Bearer {tokens.issue(self.person)}"}

    def begin(self, job: Job, size: int) -> http.client.HTTPConnection:
        """A request of which all but the body is sent."""
        sender = Connection(self.address)
        sender.putrequest("POST", f"/api/v1/jobs/{job.pk}/upload?filename=zeros")
        for name, value in {**self.headers, "Content-Length": str(size)}.items():
            sender.putheader(name, value)
        sender.endheaders()
        return sender


@pytest.fixture
def web(real_commits: None, tmp_path: Path) -> Iterator[Web]:
    path = str(tmp_path / "web.sock")
    name = connection.settings_dict["NAME"]
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgresql://rerail@/{name}?host={settings.POSTGRES_SOCKETS}",
        "REDIS_URL": settings.REDIS_URL,
        "RERAIL_DATASET_TIMEOUT_SECONDS": "2",
    }
    command = [sys.executable, "-m", "config.server", "-u", path, "-v", "0", "config.asgi:application"]
    with subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment) as process:
        eventually(lambda: Path(path).exists())
        yield Web(path, process)
        process.terminate()


def answer(sender: http.client.HTTPConnection) -> tuple[int, bytes]:
    response = sender.getresponse()
    return response.status, response.read()


def test_an_upload_goes_through_the_server_in_little_memory(web: Web) -> None:
    job = factories.awaiting_dataset(web.person)
    warm = Connection(web.address)
    warm.request("GET", f"/api/v1/jobs/{job.pk}", headers=web.headers)
    assert answer(warm)[0] == 200
    before = psutil.Process(web.process.pid).memory_info().rss
    peak = before
    sender = web.begin(job, SIZE)
    for _ in range(SIZE // MIB):
        sender.send(bytes(MIB))
        peak = max(peak, psutil.Process(web.process.pid).memory_info().rss)
    assert answer(sender)[0] == 201
    assert peak - before < 40 * MIB
    assert Dataset.objects.get().size == SIZE


def test_the_first_bytes_are_there_before_the_last_ones_and_put_the_limit_off(web: Web) -> None:
    job = factories.awaiting_dataset(web.person)
    sender = web.begin(job, 40 * MIB)
    eventually(lambda: DatasetUpload.objects.exists())
    begun = DatasetUpload.objects.get().touched_at

    def renewed() -> bool:
        sender.send(bytes(100_000))
        return DatasetUpload.objects.get().touched_at > begun

    eventually(renewed)
    sender.close()
    eventually(lambda: not DatasetUpload.objects.exists())
    job.refresh_from_db()
    assert job.state == "AWAITING_DATASET"
    assert not Dataset.objects.exists()


def test_a_refusal_is_heard_by_a_client_that_goes_on_sending_and_the_connection_lives(web: Web) -> None:
    job = factories.awaiting_dataset(web.person)
    cancellation.cancel(job.pk, web.person)
    sender = web.begin(job, 8 * MIB)
    sender.send(bytes(8 * MIB))
    assert answer(sender)[0] == 409
    sender.request("GET", f"/api/v1/jobs/{job.pk}", headers=web.headers)
    assert answer(sender)[0] == 200


def test_a_large_body_that_is_no_upload_arrives_as_ever(web: Web) -> None:
    sender = Connection(web.address)
    body = json.dumps({"training_script": "#" * 1_900_000})
    sender.request("POST", "/api/v1/jobs", body, {**web.headers, "Content-Type": "application/json"})
    assert answer(sender)[0] == 201


def test_a_body_in_chunks_is_taken_too(web: Web) -> None:
    job = factories.awaiting_dataset(web.person)
    sender = Connection(web.address)

    def pieces() -> Iterator[bytes]:
        for _ in range(5):
            yield bytes(MIB)

    headers: dict[str, Any] = {**web.headers, "Transfer-Encoding": "chunked"}
    sender.request("POST", f"/api/v1/jobs/{job.pk}/upload", pieces(), headers, encode_chunked=True)
    assert answer(sender)[0] == 201
    assert Dataset.objects.get().size == 5 * MIB
