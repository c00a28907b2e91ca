"""The whole product, from nothing to running to stopped; read it from top to bottom."""

import contextlib
import sys
import traceback
from collections.abc import Callable

from config import storages
from config.environment import BadEnvironment, Environment
from stack import database, ending, postgres, preparation, processes, programs, valkey, web
from stack.errors import CannotStart, Interrupted
from stack.places import Places
from stack.supervision import Supervisor
from stack.waiting import Waiting
from stack.watch import Watch

SUPERVISOR_START_SECONDS = 20
SERVER_START_SECONDS = 300
"""PostgreSQL may have to recover first."""
EXTERNAL_DATABASE_SECONDS = 15
WEB_START_SECONDS = 60
WEB_HEAD_START_SECONDS = 5
SERVERS_STOP_SECONDS = 120


def run(environment: Environment) -> None:
    """Bring everything up, watch over it, until a signal has stopped it all; CannotStart or BadEnvironment."""
    if sys.platform != "linux":
        raise CannotStart("Rerail's own servers and workers need Linux.")
    places = Places.of(environment)
    try:
        storages.backend(environment.storage_url, places.data)
        with Waiting() as waiting:
            preparation.make_data_folder(environment, places)
            with preparation.ownership(environment, places, waiting) as lock:
                preparation.check_port(environment)
                with preparation.socket_folder(places, waiting) as sockets_lock:
                    _Stack(environment, places, waiting, [lock, sockets_lock]).live()
    except Interrupted:
        pass
    except (CannotStart, BadEnvironment):
        raise
    except Exception as error:
        raise CannotStart(f"The stack can't go on: {_told_in_full(places, error)}") from error


class _Stack:
    """One life of the stack: its data folder, sockets and port are ours."""

    def __init__(self, environment: Environment, places: Places, waiting: Waiting, locks: list[int]) -> None:
        self._environment = environment
        self._places = places
        self._waiting = waiting
        self._lock = locks[0]
        self._announced = False
        self._parts = programs.of(environment, places)
        self._supervisor = Supervisor(places, self._parts, locks)
        self._watch = Watch(places, self._supervisor)

    def live(self) -> None:
        processes.adopt_orphans()
        try:
            self._prepare()
            self._start()
            self._announce()
            self._announced = True
            self._watch_over()
        except Interrupted:
            _say("Stopping …")
        finally:
            self._waiting.go_on()
            self._stop()

    def _prepare(self) -> None:
        """Make everything that lies still."""
        self._end_leftovers()
        if self._environment.database_url is None:
            postgres.initialise(self._places)
        if self._environment.redis_url is None:
            valkey.initialise(self._places)

    def _start(self) -> None:
        self._supervisor.launch()
        if not self._waiting.until(self._supervisor.ready, seconds=SUPERVISOR_START_SECONDS):
            raise CannotStart(f"The supervisor does not start; its log: {self._places.log_of('supervisord')}")
        # Loading Django takes longest: web does it, and so do we, while the servers start.
        self._supervisor.start([*self._names(servers=True), programs.WEB])
        database.set_up_django()
        self._wait_for_database()
        self._wait_for_redis()
        database.migrate()
        self._sign_in = database.ensure_admin(self._places, self._environment.admin_password)
        database.let_go()
        # Each of the others loads Django too: where processors are few, web would answer seconds later beside them.
        self._waiting.until(lambda: web.answers(self._environment), seconds=WEB_HEAD_START_SECONDS)
        self._supervisor.start(name for name in self._names(servers=False) if name != programs.WEB)

    def _announce(self) -> None:
        if not self._waiting.until(lambda: web.answers(self._environment), seconds=WEB_START_SECONDS):
            _say(f"The web server does not answer yet; its log: {self._places.log_of(programs.WEB)}")
        _say(f"Rerail is at {web.url(self._environment)}")
        _say(f"Sign in as {database.ADMIN} {self._sign_in}.")
        _say(f"Logs are in {self._places.logs}. Ctrl-C stops everything.")

    def _watch_over(self) -> None:
        while True:
            self._waiting.pause(1)
            if not preparation.still_owned(self._places, self._lock):
                raise CannotStart(f"The data folder {self._places.data} was removed; everything was stopped.")
            if not self._supervisor.alive:
                self._begin_again()
            for line in self._watch.look():
                _say(line)
            processes.bury(except_pid=self._supervisor.pid)

    def _begin_again(self) -> None:
        """Without its supervisor every part has been told to end: see that they do, and start them anew."""
        _say("The supervisor of all parts was killed; starting them again.")
        self._end_leftovers()
        self._prepare()
        self._start()

    def _stop(self) -> None:
        """Stop web, reaper and workers, then whoever outlived a worker, and the servers last."""
        parts = self._names(servers=False)
        self._supervisor.stop(parts)
        if not self._waiting.until(lambda: not self._running(parts), seconds=3):
            # After a start that failed, the reason is to be the only line.
            if self._announced and (slow := self._running(parts)):
                _say(f"Waiting for {', '.join(slow)} to end …")
            self._waiting.until(lambda: not self._running(parts), seconds=self._patience, step=0.2)
        ending.end_orphans(self._waiting, self._patience, except_pid=self._supervisor.pid)
        self._supervisor.shut_down()
        self._waiting.until(self._supervisor.ended, seconds=SERVERS_STOP_SECONDS)
        self._supervisor.kill()
        self._end_leftovers()

    def _end_leftovers(self) -> None:
        if left := ending.leftovers(self._places):
            _say(f"Waiting for {', '.join(part.name for part in left)} of an earlier stack to end …")
            ending.end_leftovers(self._places, self._waiting, self._patience)
        processes.bury(except_pid=self._supervisor.pid)

    def _wait_for_database(self) -> None:
        if self._environment.database_url is None:
            self._wait_for_server(postgres.NAME, lambda: postgres.answers(self._places))
            postgres.ensure_database(self._places)
        elif not self._waiting.until(lambda: not database.why_away(), seconds=EXTERNAL_DATABASE_SECONDS, step=0.5):
            raise CannotStart(f"The database (DATABASE_URL) does not answer: {database.why_away()}")

    def _wait_for_redis(self) -> None:
        if self._environment.redis_url is None:
            self._wait_for_server(valkey.NAME, lambda: valkey.answers(self._places))
        elif reason := valkey.why_away(self._environment.redis_url):
            _say(f"Until Redis (REDIS_URL) answers, no worker gets a job: {reason}")

    def _wait_for_server(self, name: str, answers: Callable[[], bool]) -> None:
        def settled() -> bool:
            self._watch.look()
            return answers() or name in self._watch.troubled

        if not self._waiting.until(settled, seconds=SERVER_START_SECONDS) or name in self._watch.troubled:
            raise CannotStart(f"{name} does not start; its log: {self._places.log_of(name)}")

    def _names(self, *, servers: bool) -> list[str]:
        return [part.name for part in self._parts if part.server == servers]

    def _running(self, names: list[str]) -> list[str]:
        states = self._supervisor.states()
        return [name for name in names if name in states and states[name].pid]

    @property
    def _patience(self) -> float:
        return max(part.stop_seconds for part in self._parts) + programs.SLACK_SECONDS


def _told_in_full(places: Places, error: Exception) -> str:
    """The error in one line; the whole of it goes to the log."""
    brief = f"{type(error).__name__}: {error}".partition("\n")[0]
    with contextlib.suppress(OSError), open(places.log_of("up"), "a") as log:
        traceback.print_exception(error, file=log)
        return f"{brief} (in full: {log.name})"
    return brief


def _say(line: str) -> None:
    # Whoever read our first lines may have closed the pipe; that is no reason to stop.
    with contextlib.suppress(OSError):
        print(line, flush=True)
