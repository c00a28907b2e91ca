"""The small commands, and the manners that all of them share."""

import re
import signal

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from jobs import dispatch
from jobs.commands import executions, tokens
from jobs.models import Token, Worker, WorkerMode
from tests import factories


@pytest.mark.usefixtures("real_commits")
def test_a_token_is_printed_alone_and_belongs_to_the_user(manage):
    ada = factories.user(name="ada")

    code, out, err = manage("issue_token", "ada", "--name", "laptop")

    assert (code, err) == (0, "")
    assert re.fullmatch(r"rr_[A-Za-z0-9_-]{43}\n", out)
    kept = Token.objects.get()
    assert (kept.user, kept.name, kept.digest) == (ada, "laptop", tokens.digest(out.strip()))


@pytest.mark.usefixtures("real_commits")
@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["nobody"], "There is no user nobody."),
        (["ada", "--name", "x" * 101], "--name may have at most 100 characters."),
    ],
    ids=["unknown user", "name too long"],
)
def test_no_token_is_made_on_an_error(manage, argv, sentence):
    factories.user(name="ada")

    assert manage("issue_token", *argv) == (1, "", f"CommandError: {sentence}\n")
    assert not Token.objects.exists()


@pytest.mark.usefixtures("real_commits")
def test_a_drained_worker_takes_nothing_new(manage):
    factories.online("w1")

    code, out, _ = manage("drain_worker", "w1")

    assert (code, out) == (0, "Worker w1 finishes what it runs and takes nothing new.\n")
    assert Worker.objects.get(name="w1").mode == WorkerMode.DRAINING
    job = factories.submitted(User.objects.create_superuser("admin"))
    assert dispatch.run() == 0
    job.refresh_from_db()
    assert job.state == "QUEUED"


@pytest.mark.usefixtures("real_commits")
def test_an_unknown_worker_is_one_line(manage):
    assert manage("drain_worker", "w9") == (1, "", "CommandError: There is no worker w9.\n")


@pytest.mark.usefixtures("real_commits")
def test_watching_a_job_that_is_not_there_is_one_line(manage):
    assert manage("watch", "7") == (2, "", "CommandError: There is no job 7.\n")


@pytest.mark.usefixtures("real_commits")
def test_watch_goes_on_after_a_number(manage, meanwhile):
    job = factories.succeeded()
    meanwhile()

    code, out, _ = manage("watch", job.pk, "--after", job.last_seq - 1)

    assert code == 0
    assert [line.split()[2] for line in out.splitlines()] == [str(job.last_seq)]


@pytest.mark.usefixtures("real_commits")
def test_a_failed_job_is_watched_to_exit_code_1(manage, meanwhile):
    job = factories.failed()
    meanwhile()

    assert manage("watch", job.pk)[0] == 1


# --- processes of their own -----------------------------------------------------------------------------------------


def test_watch_prints_events_as_they_happen_and_exits_with_the_outcome(spawn):
    job = factories.running()
    watching = spawn("watch", job.pk)
    for _ in range(job.last_seq):
        assert watching.stdout.readline()

    executions.succeed(factories.lease(job))

    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (0, "")
    assert [line.split()[4] for line in out.splitlines()] == ["succeeded"]


def test_ctrl_c_ends_a_follower_quietly(spawn):
    job = factories.running()
    watching = spawn("watch", job.pk)
    assert watching.stdout.readline()

    watching.send_signal(signal.SIGINT)

    _, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (130, "")


def test_a_reader_who_has_enough_ends_a_follower_quietly(spawn):
    job = factories.running()
    watching = spawn("watch", job.pk)
    for _ in range(job.last_seq):
        watching.stdout.readline()

    watching.stdout.close()
    executions.succeed(factories.lease(job))

    assert (watching.wait(timeout=60), watching.stderr.read()) == (141, "")


@pytest.mark.parametrize("argv", [["watch", "1"], ["issue_token", "ada"], ["drain_worker", "w1"]], ids=lambda a: a[0])
def test_a_database_that_does_not_answer_is_one_line(spawn, argv):
    command = spawn(*argv, DATABASE_URL="postgresql://rerail@/rerail?host=/nonexistent")

    out, err = command.communicate(timeout=60)

    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("CommandError: The database can't be reached: ")
    assert command.returncode in {1, 2}


def test_a_database_without_tables_is_one_line(spawn):
    command = spawn("watch", "1", DATABASE_URL=f"postgresql://rerail@/postgres?host={settings.POSTGRES_SOCKETS}")

    out, err = command.communicate(timeout=60)

    assert (command.returncode, out, len(err.splitlines())) == (2, "", 1)
    assert "The database's tables are not those of this version" in err
