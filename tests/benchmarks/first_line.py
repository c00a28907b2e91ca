"""How long a submitted script waits for its first line on an idle stack, beyond its interpreter's own start."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks import noop, plain_rq
from tests.benchmarks.report import Figure
from tests.benchmarks.stack import Stack, running

ROUNDS = 25
SCRIPT = "import time; print(repr(time.time()))"
LIMIT_SECONDS = 0.15


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder, "data")) as stack:
        ours = _from_post(stack)
    plain = _from_enqueue()
    interpreter = _interpreter_start()
    return [
        Figure(
            name="POST /jobs to the script's first line, beyond the interpreter's start, s",
            value=ours - interpreter,
            reference=plain,
            against="rq's enqueue to first line, s",
            limit=LIMIT_SECONDS,
        ),
        Figure(name="the interpreter's own start, s", value=interpreter),
    ]


def _from_post(stack: Stack) -> float:
    token = stack.manage("issue_token", "admin")
    with httpx.Client(base_url=f"{stack.url}/api/v1", headers={"Authorization": f"Bearer {token}"}) as client:
        return statistics.median(_one_post(client) for _ in range(ROUNDS))


def _one_post(client: httpx.Client) -> float:
    begun = time.time()
    answer = client.post("/jobs", json={"training_script": SCRIPT, "name": "first line"})
    answer.raise_for_status()
    job_id = answer.json()["job_id"]
    while (state := client.get(f"/jobs/{job_id}").json()["state"]) != "SUCCEEDED":
        assert state != "FAILED"
        time.sleep(0.05)
    time.sleep(0.3)  # idle again
    return float(client.get(f"/executions/{job_id}.1/logs").text) - begun


def _from_enqueue() -> float:
    with plain_rq.workers(1) as queue, tempfile.TemporaryDirectory() as folder:
        waits = [_one_enqueue(queue, Path(folder, str(number))) for number in range(ROUNDS + 1)]
    return statistics.median(waits[1:])  # the first one waited for the worker's start


def _one_enqueue(queue: Any, path: Path) -> float:
    begun = time.time()
    queue.enqueue(noop.stamp, str(path))
    while not path.exists() or not path.read_text():
        time.sleep(0.001)
    time.sleep(0.1)
    return float(path.read_text()) - begun


def _interpreter_start() -> float:
    def one() -> float:
        begun = time.time()
        return (
            float(subprocess.run([sys.executable, "-u", "-c", SCRIPT], capture_output=True, check=True).stdout) - begun
        )

    return statistics.median(one() for _ in range(ROUNDS))
