"""`manage.py submit`."""

from functools import partial

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from jobs.commands import cancellation, executions, logs
from jobs.models import Job, Priority
from tests import factories

pytestmark = pytest.mark.usefixtures("real_commits")


@pytest.fixture
def admin():
    return User.objects.create_superuser("admin", password="secret")


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    return path


def only_job() -> Job:
    return Job.objects.select_related("source", "owner").get()


def test_the_answer_is_the_jobs_id_alone(manage, admin, script):
    code, out, err = manage("submit", script)

    assert (code, out, err) == (0, f"{only_job().pk}\n", "")
    assert (only_job().owner, only_job().name, only_job().source.script) == (admin, "train.py", "print('hello')\n")


def test_everything_that_is_asked_for_arrives(manage, admin, script, tmp_path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("numpy\n")

    code, _, err = manage(
        "submit", script, "fast", "--name", "Digits", "--requirements", requirements, "--env", "A=1", "--env", "B=x=y",
        "--label", "team=vision", "--worker-label", "gpu=a100", "--priority", "high", "--max-attempts", "5",
        "--retry-on", "lost", "--retry-on", "failed", "--time-limit", "90.5", "--queue-timeout", "60",
        "--checkpoint-seconds", "30", "--", "--epochs", "3",
    )  # fmt: skip

    assert (code, err) == (0, "")
    job = only_job()
    assert job.source.args == ["fast", "--epochs", "3"]
    assert (job.source.env, job.source.requirements) == ({"A": "1", "B": "x=y"}, "numpy\n")
    assert (job.name, job.labels, job.worker_labels) == ("Digits", {"team": "vision"}, {"gpu": "a100"})
    assert (job.priority, job.max_attempts, sorted(job.retry_on)) == (Priority.HIGH, 5, ["failed", "lost"])
    assert (job.time_limit_seconds, job.queue_timeout_seconds, job.checkpoint_seconds) == (90.5, 60, 30)


def test_another_owner_can_be_named(manage, admin, script):
    member = factories.user(name="ada")

    manage("submit", script, "--owner", "ada")

    assert only_job().owner == member


def test_with_several_superusers_the_job_is_admins(manage, admin, script):
    User.objects.create_superuser("root", password="secret")

    manage("submit", script)

    assert only_job().owner == admin


CONTENTS = {
    "empty": (b" \n", "is empty"),
    "too large": (b"#" * (settings.MAX_SCRIPT_BYTES + 1), "is larger than 2097152 bytes"),
    "not UTF-8": (b"print('\xff')", "is not UTF-8 text"),
    "a binary": (b"\0\0\0", "null byte"),
}


@pytest.mark.parametrize(("content", "sentence"), CONTENTS.values(), ids=CONTENTS.keys())
def test_a_file_that_is_no_script_is_refused_in_one_line(manage, admin, script, content, sentence):
    script.write_bytes(content)

    code, out, err = manage("submit", script)

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err
    assert not Job.objects.exists()


WRONG = {
    "a missing file": (["/nonexistent/train.py"], "can't be read: No such file"),
    "a folder": (["/"], "can't be read: Is a directory"),
    "a variable of ours": (["FILE", "--env", "RERAIL_JOB_ID=1"], "RERAIL_JOB_ID can't be set"),
    "a name of two lines": (["FILE", "--name", "a\nb"], "one line of printable characters"),
    "an impossible label": (["FILE", "--label", "a b=c"], "A label's key"),
    "nobody": (["FILE", "--owner", "nobody"], "There is no user nobody."),
}


@pytest.mark.parametrize(("argv", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_submitted_is_refused_in_one_line(manage, admin, script, argv, sentence):
    code, out, err = manage("submit", *[script if word == "FILE" else word for word in argv])

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err
    assert not Job.objects.exists()


OPTIONS = [
    ["--env", "A"],
    ["--time-limit", "-1"],
    ["--time-limit", "nan"],
    ["--max-attempts", "0"],
    ["--priority", "x"],
]


@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_a_wrong_option_is_named(manage, admin, script, option):
    code, _, err = manage("submit", script, *option)

    assert code == 2
    assert f"argument {option[0]}" in err.splitlines()[-1]
    assert not Job.objects.exists()


def test_a_viewer_may_not_submit(manage, script):
    factories.user("viewer", name="eve")

    code, _, err = manage("submit", script, "--owner", "eve")

    assert (code, err.strip()) == (2, "CommandError: eve may not submit jobs: that takes the group member or operator.")


def test_an_account_that_is_switched_off_may_not_submit(manage, script):
    factories.user(name="bob", is_active=False)

    code, _, err = manage("submit", script, "--owner", "bob")

    assert (code, err.strip()) == (2, "CommandError: The account bob is switched off.")


# --- following ------------------------------------------------------------------------------------------------------


def started():
    """The submitted job, brought to its script on a worker."""
    factories.online()
    executions.start(factories.lease(only_job()))


def succeed():
    executions.succeed(factories.lease(only_job()))


def fail():
    lease = factories.lease(only_job())
    logs.append(lease, 0, b"Traceback:\n    boom\n")
    executions.fail(lease, factories.failure())


def cancel():
    cancellation.cancel(only_job().pk, only_job().owner)


@pytest.mark.parametrize(
    ("ends", "code", "kind"),
    [([started, succeed], 0, "succeeded"), ([started, fail], 1, "failed"), ([cancel], 3, "cancelled")],
    ids=["succeeded", "failed", "cancelled"],
)
def test_following_ends_with_the_jobs_outcome(manage, admin, script, meanwhile, ends, code, kind):
    meanwhile(*ends)

    ended, out, err = manage("submit", script, "--follow")

    job = only_job()
    lines = out.splitlines()
    assert (ended, err, lines[0]) == (code, "", str(job.pk))
    assert [int(line.split()[2]) for line in lines[1 : job.last_seq + 1]] == list(range(1, job.last_seq + 1))
    assert lines[job.last_seq].split()[4] == kind


def test_a_failed_script_has_the_last_word(manage, admin, script, meanwhile):
    meanwhile(started, fail)

    _, out, _ = manage("submit", script, "--follow")

    assert out.splitlines()[-3:] == [f"The last lines of {only_job().pk}.1:", "  Traceback:", "      boom"]


def test_a_job_removed_while_it_is_followed_is_said_to_be_gone(manage, admin, script, meanwhile):
    meanwhile(partial(Job.objects.all().delete))

    code, _, err = manage("submit", script, "--follow")

    assert (code, len(err.splitlines())) == (2, 1)
    assert "There is no job" in err


def test_a_dataset_is_named_or_waited_for_and_an_unknown_one_is_told(manage, admin, script):
    code, _, err = manage("submit", script, "--dataset", "none")
    assert code != 0
    assert "no dataset of that name" in err

    manage("submit", script, "--dataset", "upload")

    assert only_job().state == "AWAITING_DATASET"
