"""Real scripts for the tests of isolation: a bench on which one owner's scripts are started and listened to."""

import contextlib
import os
import select
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from workers.isolation import confine, give_folder, is_root
from workers.process import Level, Script, ScriptSpec, base_python

PATIENCE = 20.0
LEVELS = [
    pytest.param(
        level, marks=pytest.mark.skipif(level is Level.UID and not is_root(), reason="only root can change its uid")
    )
    for level in Level
]
# Puts a descendant out of reach of process groups, sessions and parents; it holds our stdout open for an hour.
DAEMON = """
import os, sys, time
def daemon(before=lambda: None):
    told, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            before()
            os.write(tell, b"x")
            time.sleep(3600)
            os._exit(0)
        os._exit(0)
    os.wait()
    os.read(told, 1)
"""


def is_enterable(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


@lru_cache(maxsize=1)
def reachable_python() -> Path:
    """An interpreter that every uid can run: ours, the system's, or a copy."""
    for candidate in (base_python(), Path("/usr/bin/python3").resolve()):
        if candidate.exists() and is_enterable(candidate):
            return candidate
    home = Path(tempfile.gettempdir(), f"rerail-test-python-{os.getuid()}")
    if not home.exists():
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        ignored = shutil.ignore_patterns("site-packages", "test", "__pycache__")
        shutil.copytree(Path(sys.base_prefix, "lib", version), home / "lib" / version, ignore=ignored)
        (home / "bin").mkdir()
        shutil.copy(base_python(), home / "bin" / "python3")
    return home / "bin" / "python3"


@contextlib.contextmanager
def open_folder(where: str = "/var/tmp") -> Iterator[Path]:
    """A folder that other uids may pass through, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="rerail-test-", dir=where)).resolve()
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Output:
    """What a script and all it started write, as a pipe whose end of file tells that every one of them is gone."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._buffer = b""

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self._reader)

    def _fill(self, patience: float) -> bool:
        if not select.select([self._reader], [], [], patience)[0]:
            raise AssertionError(f"nothing came in {patience} s after {self._buffer!r}")
        part = os.read(self._reader, 65536)
        self._buffer += part
        return bool(part)

    def line(self) -> str:
        while b"\n" not in self._buffer:
            assert self._fill(PATIENCE), f"ended without a line: {self._buffer!r}"
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def rest(self, patience: float = PATIENCE) -> str:
        """All that is still written, when nobody is left who could write more."""
        self.close_writer()
        while self._fill(patience):
            pass
        text, self._buffer = self._buffer.decode(), b""
        return text


class Bench:
    """Starts Python code as a script of `owner_id` at `level`, in a folder of its own below `root`."""

    def __init__(self, level: Level, root: Path, owner_id: int = 7) -> None:
        self.level, self.root, self.owner_id = level, root, owner_id
        self.folder = root / f"execution-{owner_id}"
        self.hidden: list[Path] = []
        self.readonly = [root]  # it lies in a scratch folder, which a namespace covers
        self.writable: list[Path] = []
        self.output = Output()
        self.scripts: list[Script] = []

    @property
    def python(self) -> str:
        return str(reachable_python() if self.level is Level.UID else base_python())

    def spec(self, argv: Sequence[str], env: dict[str, str] | None = None) -> ScriptSpec:
        confinement = confine(
            self.level,
            self.owner_id,
            hidden=self.hidden,
            writable=[self.folder, *self.writable],
            readonly=self.readonly,
        )
        give_folder(self.folder, confinement)
        writer = self.output.writer
        return ScriptSpec(
            argv=argv, env=env or {}, folder=self.folder, stdout=writer, stderr=writer, confinement=confinement
        )

    def start(self, code: str, *args: str) -> Script:
        script = Script.spawn(self.spec([self.python, "-u", "-c", DAEMON + code, *args]))
        self.scripts.append(script)
        return script

    def run(self, code: str, *args: str) -> str:
        """What the code printed; it must succeed."""
        script = self.start(code, *args)
        end = script.wait(PATIENCE)
        text = self.output.rest()
        assert end is not None, text
        assert end.code == 0, text
        return text.strip()

    def close(self) -> None:
        for script in self.scripts:
            script.kill(PATIENCE)
            script.close()
        self.output.close()


@contextlib.contextmanager
def open_bench(level: Level, owner_id: int = 7) -> Iterator[Bench]:
    with open_folder() as root:
        bench = Bench(level, root, owner_id)
        try:
            yield bench
        finally:
            bench.close()
