"""The folders of one execution on its worker's disk."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

SDK = Path(__file__).with_name("sdk")
SCRIPT = Path("script.py")


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """`folder` is the script's own; what lies beside it is the service's."""

    root: Path
    folder: Path
    output: Path
    metrics: Path
    requests: Path
    answers: Path
    log: Path
    setup_log: Path

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def scratch() -> Path:
    """Where executions of this data folder have their folders."""
    return Path(settings.RERAIL.data_dir) / "scratch"


def cache() -> Path:
    """Where packages and environments are kept from one execution to the next."""
    return Path(settings.RERAIL.data_dir) / "cache"


def create(label: str, script: str) -> Workspace:
    """Make the folders and put the script into its own. Raises OSError, on a full disk for one."""
    scratch().mkdir(mode=0o711, parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"{label}-", dir=scratch()))
    os.chmod(root, 0o711)  # the script's uid passes through it to its own folder
    folder = root / "work"
    space = Workspace(
        root=root,
        folder=folder,
        output=folder / "output",
        metrics=folder / ".rerail" / "metrics.jsonl",
        requests=folder / ".rerail" / "checkpoint.requests",
        answers=folder / ".rerail" / "checkpoint.answers",
        log=root / "log",
        setup_log=root / "setup.log",
    )
    space.output.mkdir(parents=True)
    space.metrics.parent.mkdir()
    for file in (space.metrics, space.requests, space.answers, space.log, space.setup_log):
        file.touch(mode=0o600)
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    return space
