"""A real S3 server for tests: SeaweedFS on free ports."""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

BUCKET = "rerail"
KEY, SECRET = "rerail-tests", "not-a-real-secret"
PORTS = range(18400, 18500)
GRPC = 10_000
"""SeaweedFS listens for its own parts on each port plus this."""


@dataclass
class Seaweed:
    """A running server and what a client needs."""

    process: subprocess.Popen[bytes]
    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        """For BucketStorage."""
        return {
            "bucket_name": BUCKET,
            "location": "installation",
            "endpoint_url": self.endpoint,
            "region_name": "us-east-1",
            "access_key": KEY,
            "secret_key": SECRET,
        }

    def client(self, secret: str = SECRET) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=secret,
            config=Config(s3={"addressing_style": "path"}, connect_timeout=1, retries={"max_attempts": 1}),
        )

    def stop(self) -> None:
        """At once: nobody needs its data any more."""
        self.process.kill()
        self.process.wait()


def start(folder: Path) -> Seaweed:
    s3, master, filer, volume = _free_ports(4)
    binary = Path(sys.executable).with_name("weed")
    command = [
        str(binary) if binary.exists() else shutil.which("weed") or "weed",
        *("mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
        *("-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.preStopSeconds=0"),
        *(f"-s3.port={s3}", f"-master.port={master}", f"-filer.port={filer}", f"-volume.port={volume}"),
        f"-bucket={BUCKET}",
    ]
    environment = {**os.environ, "GOMEMLIMIT": "300MiB", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with open(folder / "weed.log", "wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    server = Seaweed(process, f"http://127.0.0.1:{s3}")
    try:
        _wait_for(server)
    except BaseException:
        server.stop()
        raise
    return server


def _wait_for(server: Seaweed) -> None:
    client = server.client()
    deadline = time.monotonic() + 30
    while True:
        try:
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
            return
        except (BotoCoreError, ClientError):
            assert server.process.poll() is None, "weed ended: see weed.log"
            assert time.monotonic() < deadline, "weed does not answer"
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    ports = [port for port in PORTS if _is_free(port) and _is_free(port + GRPC)]
    return random.sample(ports, count)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
