"""`examples/digits.py` learns to read, and an interruption changes nothing of what it learns.

Run alone, by the interpreter of the environment that its own metadata asks for.
"""

import json
import os
import re
import signal
import subprocess

import pytest
from django.conf import settings
from uv import find_uv_bin

SCRIPT = settings.BASE_DIR / "examples" / "digits.py"
SDK = settings.BASE_DIR / "workers" / "sdk"


@pytest.fixture(scope="module")
def python():
    """The interpreter with the script's packages."""
    subprocess.run([find_uv_bin(), "sync", "--quiet", "--script", SCRIPT], check=True)
    found = subprocess.run(
        [find_uv_bin(), "python", "find", "--script", SCRIPT], check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


@pytest.fixture
def start(python, tmp_path):
    """Start the script in a folder of its own."""
    processes = []

    def start(**env):
        process = subprocess.Popen(
            [python, "-u", SCRIPT],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def run(start):
    def run(**env):
        process = start(**env)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        return out.splitlines()

    return run


def accuracy(lines):
    found = re.fullmatch(r"accuracy (0\.\d+) on \d+ images it has never seen", lines[-1])
    assert found is not None, lines
    return float(found[1])


def test_it_reads_most_digits_that_it_has_not_seen_and_runs_without_rerail(run, tmp_path):
    lines = run()

    assert accuracy(lines) >= 0.93
    assert len([line for line in lines if line.startswith("epoch ")]) == 30
    assert [path.name for path in (tmp_path / "output").iterdir()] == ["model.pkl"]


def test_step_loss_and_accuracy_are_reported_through_the_rerail_module(run, tmp_path):
    metrics = tmp_path / "metrics.jsonl"

    lines = run(PYTHONPATH=str(SDK), RERAIL_METRICS=str(metrics), RERAIL_RESUMED="0")

    entries = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [entry["step"] for entry in entries] == [*range(1, 31), 30]
    assert {entry["total"] for entry in entries} == {30}
    assert entries[0]["loss"] > entries[29]["loss"]
    assert f"{entries[-1]['accuracy']:.4f}" == f"{accuracy(lines):.4f}"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_an_interrupted_run_goes_on_where_it_was_and_ends_with_the_same_model(start, run, tmp_path, end):
    whole = run()
    (tmp_path / "output" / "model.pkl").unlink()
    interrupted = start(DIGITS_SECONDS_PER_EPOCH="600")
    first = interrupted.stdout.readline().rstrip()

    interrupted.send_signal(end)
    interrupted.communicate(timeout=60)
    rest = run(RERAIL_RESUMED="1")

    assert interrupted.returncode == (143 if end is signal.SIGTERM else -signal.SIGKILL)
    assert rest[0] == "going on after epoch 1"
    assert [first, *rest[1:]] == whole


def test_a_finished_run_that_is_run_again_tells_its_accuracy_again(run):
    assert run()[-1] == run(RERAIL_RESUMED="1")[-1]
