"""Every test runs against a real PostgreSQL and a real Valkey of its own process; nothing stands in for either.

A test process (each one, under pytest-xdist) has a data folder under the temporary folder, and starts both servers
there when the first test asks for the database: with the marker `django_db`, or by one of these fixtures.

- `db`: the test's writes are rolled back. What a command does once it is committed (dispatch, doorbells) does not
  happen, unless `django_capture_on_commit_callbacks(execute=True)` makes it.
- `real_commits`: the test commits like the product does, from as many connections as it likes; afterwards the tables
  are emptied in a few milliseconds. Prefer it to `django_db(transaction=True)`, which does the same in a few hundred.
- `crew`: threads that act at the same moment, each on its own connection (with `real_commits`).
- `statements`: counts SQL statements as budgets do.
- `stack`: the whole product in processes of its own, over servers of its own, for acceptance and browser tests.

Users, workers and jobs in every state come from `tests.factories`; `tests.invariants.check()` holds the promises of the
design against the whole database, and belongs at the end of any test that moves jobs.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django
import django.conf
import hypothesis
import pytest

DATA_DIR = Path(tempfile.mkdtemp(prefix="rerail-test-"))
DATA_DIR.chmod(0o711)

if "config.settings" in sys.modules:
    raise pytest.UsageError(
        "Leave --ds and DJANGO_SETTINGS_MODULE out: the tests choose their own servers before settings are read."
    )
for _name in [name for name in os.environ if name.startswith("RERAIL_")] + ["DATABASE_URL", "REDIS_URL"]:
    os.environ.pop(_name, None)
os.environ["RERAIL_DATA_DIR"] = str(DATA_DIR)
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()
# A password costs a third of a second otherwise, which is its point, but not here.
django.conf.settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Not for the processes of xdist, which come here by themselves.
del os.environ["DJANGO_SETTINGS_MODULE"]


hypothesis.settings.register_profile("quick", max_examples=12, database=None)
hypothesis.settings.register_profile("long", max_examples=1500, database=None)
hypothesis.settings.load_profile("quick")


SLOW = (
    "tests/integration/api/test_openapi.py",
    "tests/integration/console/test_digits.py",
    "tests/integration/storage/",
    "tests/integration/test_races.py",
    "tests/integration/test_supervision.py",
    "tests/integration/workers/",
)
"""Real workers, object servers, races and fuzzing: what `make quick` leaves to `make test`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_unconfigure() -> None:
    shutil.rmtree(DATA_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def servers() -> Iterator[None]:
    """Both servers, empty, where the settings look for them."""
    from stack.servers import embedded

    with embedded(DATA_DIR):
        yield


@pytest.fixture(scope="session")
def django_db_setup(servers, django_test_environment, django_db_blocker) -> Iterator[None]:
    """The test database, instead of pytest-django's fixture, which makes one only for what it knows of."""
    from django.db import connection
    from django.db.models.signals import post_migrate
    from django.test.utils import setup_databases

    from tests import database

    # Every flush of Django's ends with that signal, and takes the rows of which there is one along.
    post_migrate.connect(database.restore_single_rows, dispatch_uid="tests")
    with django_db_blocker.unblock():
        setup_databases(verbosity=0, interactive=False, serialized_aliases=set())
    yield
    with django_db_blocker.unblock():
        connection.close()  # the database goes with its server


@pytest.fixture
def redis(servers):
    """An empty Redis."""
    import django_rq

    connection = django_rq.get_connection("default")
    connection.flushall()
    return connection


@pytest.fixture
def real_commits(django_db_setup, django_db_blocker, redis) -> Iterator[None]:
    """A test that commits; jobs, workers and users are gone afterwards, the migrations' rows as they were."""
    from tests import database

    with django_db_blocker.unblock():
        try:
            yield
        finally:
            database.empty()


@pytest.fixture
def crew(real_commits):
    """Threads that do things at the same moment, each on a database connection of its own."""
    from tests.crew import Crew

    with Crew() as crew:
        yield crew


@pytest.fixture
def statements():
    """`with statements() as seen:` lists in `seen` the SQL run meanwhile, BEGIN, COMMIT and SAVEPOINTs left out."""
    from tests import database

    return database.statements


@pytest.fixture
def own_redis(real_commits, settings):
    """A Redis that the test may stop, freeze and flush; dispatch rings there meanwhile."""
    from jobs import dispatch
    from tests.valkey import own_valkey

    with own_valkey() as server:
        settings.REDIS_URL = server.url
        settings.REDIS_TIMEOUT_SECONDS = 0.3
        dispatch._bell.cache_clear()
        yield server
    dispatch._bell.cache_clear()


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """The whole product as its users start it, with one worker, for tests that leave it running as it was."""
    from tests.up import Up

    up = Up(tmp_path_factory.mktemp("stack") / "data").launch().ready()
    yield up
    up.stop()
