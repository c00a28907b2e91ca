"""`make up` as its users meet it: real processes and signals, and a data folder of its own for each stack."""

import signal
import socket
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.up import PATIENCE, Up, free_port
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def launched(tmp_path):
    """Makes stacks, and sees to their end."""
    made: list[Up] = []

    def make(name: str = "data", **environment: str) -> Up:
        made.append(Up(tmp_path / name, **environment))
        return made[-1]

    yield make
    for up in made:
        if up.process.poll() is None:
            up.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One stack for all tests that leave it as it was."""
    up = Up(tmp_path_factory.mktemp("running") / "data").launch().ready()
    yield up
    up.stop()


PASSWORD_IS_RIGHT = (
    "from django.contrib.auth.models import User;"
    "print(User.objects.get(username='admin', is_superuser=True).check_password({!r}))"
)


def test_it_says_where_to_go_and_how_to_sign_in(running):
    password = (running.data_dir / "admin_password").read_text().strip()
    assert f"Rerail is at http://127.0.0.1:{running.port}\n" in running.output
    assert f"Sign in as admin with the password {password} " in running.output
    assert running.manage(PASSWORD_IS_RIGHT.format(password)) == "True"
    assert running.get("/admin/login/") == 200


def test_the_kept_password_is_its_owners_alone(running):
    assert (running.data_dir / "admin_password").stat().st_mode & 0o777 == 0o600


def test_the_embedded_servers_listen_on_no_network(running):
    servers = [running.part("postgres"), running.part("valkey")]
    assert [server.net_connections("inet") for server in servers] == [[], []]


def test_another_start_on_the_same_data_folder_names_the_owner(running):
    second = Up(running.data_dir).launch()
    assert second.ended() != 0
    assert second.output.splitlines() == [
        f"rerail: A running stack owns {running.data_dir}: process {running.process.pid}, "
        f"at http://127.0.0.1:{running.port}."
    ]
    assert running.get("/admin/login/") == 200


def test_another_stack_runs_beside_it(running, launched):
    other = launched("other", RERAIL_WORKERS="0").launch().ready()
    assert other.get("/admin/login/") == running.get("/admin/login/") == 200
    assert other.part("postgres") != running.part("postgres")
    assert other.stop() == 0
    assert running.get("/admin/login/") == 200


def test_a_port_in_use_is_one_line_and_touches_nothing(running, launched):
    up = launched(RERAIL_PORT=str(running.port)).launch()
    assert up.ended() != 0
    assert up.output == f"rerail: Port {running.port} of 127.0.0.1 is in use; set RERAIL_PORT to a free one.\n"
    assert not (up.data_dir / "postgres").exists()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RERAIL_PORT", "http"),
        ("RERAIL_WORKERS", "-1"),
        ("RERAIL_BIND", "not an address"),
        ("RERAIL_LEASE_SECONDS", "6"),
        ("DATABASE_URL", "mysql://elsewhere/rerail"),
        ("RERAIL_STORAGE_URL", "file://relative"),
    ],
)
def test_a_bad_variable_is_one_line_that_names_it(launched, variable, value):
    up = launched()
    up.environment[variable] = value
    up.launch()
    assert up.ended() != 0
    assert len(up.output.splitlines()) == 1
    assert variable in up.output


def test_a_database_that_does_not_answer_is_one_line_without_its_password(launched):
    up = launched(DATABASE_URL=f"postgresql://me:hushhush@127.0.0.1:{free_port()}/none", RERAIL_WORKERS="0").launch()
    assert up.ended() != 0
    assert up.output.splitlines()[-1].startswith("rerail: The database (DATABASE_URL) does not answer: ")
    assert len(up.output.splitlines()) == 1
    assert "hushhush" not in up.output


def test_a_data_folder_that_is_no_folder_is_one_line(launched):
    up = launched()
    up.data_dir.write_text("a file")
    assert up.launch().ended() != 0
    assert up.output == f"rerail: The data folder {up.data_dir} can't be used: File exists.\n"


@pytest.mark.parametrize("name", ["web", "valkey", "reaper", "housekeeping", "w1", "postgres"])
def test_a_killed_part_comes_back(running, name):
    killed = running.part(name)
    killed.kill()
    running.replaced(killed, name)
    eventually(lambda: running.get("/readyz") == 200, within=PATIENCE)
    assert running.manage("from jobs.models import Job; print(Job.objects.count())") == "0"


def test_a_killed_worker_is_back_within_seconds(running):
    worker = running.part("w1")
    eventually(lambda: time.time() - running.part("w1").create_time() > 6)
    worker = running.part("w1")
    worker.kill()
    killed_at = time.time()
    assert running.replaced(worker, "w1").create_time() - killed_at < 3


def test_a_workers_command_line_says_what_it_is(running):
    command = running.part("w1").cmdline()
    assert command[command.index("run_worker") :] == ["run_worker", "--name", "w1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_leaves_nothing_running(launched, number):
    up = launched().launch().ready()
    everything = up.everything()
    assert len(everything) >= 8
    assert up.stop(number) == 0
    assert alive(everything) == []
    assert "Traceback" not in up.output


def test_a_stop_while_it_starts_leaves_nothing_running_and_the_next_start_works(launched):
    up = launched().launch()
    eventually(lambda: (up.data_dir / "run" / "postgres.pid").exists())
    everything = up.everything()
    assert up.stop(signal.SIGINT) == 0
    assert alive(everything) == []
    assert "Traceback" not in up.output
    assert up.launch().ready().get("/admin/login/") == 200


def test_a_second_start_finds_what_the_first_left(launched):
    up = launched(RERAIL_WORKERS="0").launch().ready()
    password = (up.data_dir / "admin_password").read_text()
    up.manage("from django.contrib.auth.models import User; User.objects.create_user('grace')")
    up.stop()
    up.launch().ready()
    assert (
        up.manage("from django.contrib.auth.models import User; print(User.objects.filter(username='grace').count())")
        == "1"
    )
    assert (up.data_dir / "admin_password").read_text() == password


def test_a_given_password_holds_at_every_start(launched):
    up = launched(RERAIL_WORKERS="0").launch().ready()
    up.stop()
    up.environment["RERAIL_ADMIN_PASSWORD"] = "chosen by the operator"
    up.launch().ready()
    assert up.manage(PASSWORD_IS_RIGHT.format("chosen by the operator")) == "True"
    assert "chosen by the operator" not in up.output


def test_a_killed_supervisor_is_replaced_with_all_its_parts(launched):
    up = launched().launch().ready()
    supervisor, web, postgres = up.part("supervisord"), up.part("web"), up.part("postgres")
    supervisor.kill()
    up.told("supervisor of all parts was killed")
    up.replaced(supervisor, "supervisord")
    up.replaced(web, "web")
    up.replaced(postgres, "postgres")
    assert alive([supervisor, web, postgres]) == []
    eventually(lambda: up.get("/admin/login/") == 200, within=PATIENCE)
    everything = up.everything()
    assert up.stop() == 0
    assert alive(everything) == []


def test_when_up_is_killed_everything_else_ends_and_the_next_start_works(launched):
    up = launched().launch().ready()
    everything = up.everything()
    up.process.kill()
    next_up = Up(up.data_dir, RERAIL_PORT=str(free_port())).launch()
    up.process.communicate()
    try:
        next_up.ready()
        assert alive(everything) == []
        assert next_up.get("/admin/login/") == 200
    finally:
        next_up.stop()


def test_when_up_and_its_supervisor_are_killed_nothing_lingers(launched):
    up = launched().launch().ready()
    everything = up.everything()
    supervisor = up.part("supervisord")
    up.process.kill()
    supervisor.kill()
    up.process.communicate()
    eventually(lambda: not alive(everything))
    assert up.launch().ready().get("/admin/login/") == 200


def test_a_stack_whose_data_folder_is_removed_stops_and_a_new_one_starts_afresh(launched):
    up = launched(RERAIL_WORKERS="0").launch().ready()
    everything = up.everything()
    up.data_dir.rename(up.data_dir.with_name("taken away"))
    successor = launched(RERAIL_WORKERS="0").launch().ready()
    assert up.ended() != 0
    assert up.output.splitlines()[-1] == f"rerail: The data folder {up.data_dir} was removed; everything was stopped."
    assert alive(everything) == []
    assert successor.get("/admin/login/") == 200


def test_given_services_are_used_instead_of_embedded_ones(running, launched):
    sockets = next(word for word in running.part("postgres").cmdline() if word.startswith("unix_socket_directories="))
    folder = sockets.partition("=")[2]
    with psycopg.connect(f"postgresql://rerail@/rerail?host={folder}", autocommit=True) as connection:
        connection.execute("CREATE DATABASE shared")
    up = launched(
        RERAIL_WORKERS="1",
        DATABASE_URL=f"postgresql://rerail@/shared?host={folder}",
        REDIS_URL=f"unix://{Path(folder).parent}/valkey/valkey.sock?db=1",
    )
    up.launch().ready()
    assert up.get("/admin/login/") == 200
    assert not (up.data_dir / "postgres").exists()
    assert not (up.data_dir / "valkey").exists()
    worker = up.part(f"{socket.gethostname()}-w1")
    assert worker.is_running()
    assert up.stop() == 0


def test_make_passes_a_stop_on(launched):
    makefile = f"up:\n\t@exec {sys.executable} -m stack\n"
    up = launched(RERAIL_WORKERS="0")
    up.launch("make", "--eval", makefile, "--file", "/dev/null", "up").ready()
    everything = up.everything()
    up.stop()
    assert alive(everything) == []


def test_a_killed_make_takes_everything_with_it(launched):
    makefile = f"up:\n\t@exec {sys.executable} -m stack\n"
    up = launched(RERAIL_WORKERS="0")
    up.launch("make", "--eval", makefile, "--file", "/dev/null", "up").ready()
    everything = up.everything()
    up.process.kill()
    eventually(lambda: not alive(everything))
