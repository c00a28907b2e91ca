"""`manage.py demo` where nothing runs: it brings a stack, trains a real model, and leaves nothing behind."""

import os
import re
import socket
import subprocess
import sys

import psutil
import pytest

from config.environment import BASE_DIR

pytestmark = pytest.mark.acceptance


@pytest.fixture
def environment(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o711)  # for root the servers run under another account
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("RERAIL_", "DJANGO_"))}
    return inherited | {"RERAIL_DATA_DIR": str(tmp_path / "data"), "RERAIL_PORT": str(port), "RERAIL_WORKERS": "1"}


def belongs_to(process, data_dir):
    try:
        return process.environ().get("RERAIL_DATA_DIR") == data_dir
    except psutil.Error:
        return False


def test_the_demo_trains_a_real_model_on_a_stack_of_its_own_and_stops_it(environment):
    demo = subprocess.run(
        [sys.executable, "manage.py", "demo", "--seconds-per-epoch", "0.01"],
        cwd=BASE_DIR, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip

    lines = demo.stdout.splitlines()
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert lines[0].startswith("No stack is running")
    assert [line.split()[4] for line in lines if line.startswith("20")][-1] == "succeeded"
    found = re.search(r"^Accuracy (0\.\d+) on digits it had not seen", demo.stdout, re.M)
    assert found is not None
    assert float(found[1]) >= 0.93
    assert not [p for p in psutil.process_iter() if belongs_to(p, environment["RERAIL_DATA_DIR"])]
