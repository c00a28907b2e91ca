"""`manage.py demo` judges the job by what the job itself reported. That it starts a stack is tested in acceptance."""

import contextlib

import pytest
from django.contrib.auth.models import User

from jobs.commands import cancellation, executions, metrics
from jobs.commands.metrics import Progress
from jobs.console.following import Polling
from jobs.models import Job
from stack import borrowed
from stack.errors import CannotStart
from tests import factories

pytestmark = pytest.mark.usefixtures("real_commits")


@pytest.fixture(autouse=True)
def running_stack(real_commits, monkeypatch):
    """The servers are those of the tests, and what workers would do is done by the steps of each test."""
    monkeypatch.setattr(borrowed, "available", lambda *_: contextlib.nullcontext())
    User.objects.create_superuser("admin", password="secret")


def start():
    factories.online()
    executions.start(factories.lease(Job.objects.get()))


def report(accuracy):
    def step():
        points = [factories.point(1, "accuracy", 0.1), factories.point(30, "accuracy", accuracy)]
        metrics.append(factories.lease(Job.objects.get()), 0, 9, points, Progress(step=30, total=30, rate=None))

    return step


def succeed():
    executions.succeed(factories.lease(Job.objects.get()))


def fail():
    executions.fail(factories.lease(Job.objects.get()), factories.failure())


def cancel():
    cancellation.cancel(Job.objects.get().pk, User.objects.get())


def test_it_ends_well_when_the_job_succeeded_and_reached_the_accuracy(manage, meanwhile):
    meanwhile(start, report(0.93), succeed)

    code, out, err = manage("demo")

    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("Accuracy 0.9300 ")
    assert out.splitlines()[-2].split()[3:5] == [f"{Job.objects.get().pk}.1", "succeeded"]


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([start, report(0.9299), succeed], "Its accuracy is 0.9299, less than the 0.93 it should reach."),
        ([start, report(float("nan")), succeed], "Its accuracy is nan, less than the 0.93 it should reach."),
        ([start, succeed], "succeeded but reported no accuracy."),
        ([start, report(0.99), fail], "ended FAILED: The script exited with code 3."),
        ([cancel], "ended CANCELLED: Cancelled."),
    ],
    ids=["too inaccurate", "no number", "silent", "failed", "cancelled"],
)
def test_it_ends_badly_otherwise_and_says_why(manage, meanwhile, steps, sentence):
    meanwhile(*steps)

    code, out, err = manage("demo")

    assert (code, len(err.splitlines())) == (1, 1)
    assert sentence in err
    assert "Accuracy" not in out


def test_it_does_not_wait_for_ever(manage, monkeypatch):
    monkeypatch.setattr(Polling, "wait", lambda _: None)

    code, _, err = manage("demo", "--timeout", "0.001")

    assert (code, len(err.splitlines())) == (1, 1)
    assert "is QUEUED after 0.001 s" in err


def test_a_stack_that_does_not_start_is_one_line(manage, monkeypatch):
    def refuse(*_):
        raise CannotStart("Port 8000 of 127.0.0.1 is in use; set RERAIL_PORT to a free one.")

    monkeypatch.setattr(borrowed, "available", refuse)

    assert manage("demo") == (1, "", "CommandError: Port 8000 of 127.0.0.1 is in use; set RERAIL_PORT to a free one.\n")
