"""The plain tool beside which we are measured: forking django-rq workers on the queue `default`."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import django_rq


@contextlib.contextmanager
def workers(count: int) -> Iterator[Any]:
    """`count` stock workers, which stop with the block; gives their queue, empty."""
    queue: Any = django_rq.get_queue("default")
    queue.empty()
    command = [sys.executable, "manage.py", "rqworker", "default"]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield queue
    finally:
        for worker in running:
            worker.terminate()
        for worker in running:
            worker.wait()
