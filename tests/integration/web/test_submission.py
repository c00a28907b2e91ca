from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from jobs import throttling
from jobs.models import Job, JobSource

pytestmark = pytest.mark.django_db

FILLED = {"script": "print(1)", "priority": "NORMAL", "max_attempts": "3", "retry_on": ["lost"]}


def send(client: Client, **changes: Any) -> Any:
    return client.post(reverse("job-submit"), FILLED | changes)


def test_a_filled_form_becomes_a_job_with_all_that_was_asked_for(mira, browser):
    answer = send(
        browser(mira),
        name="digits",
        args="--name 'two words' --lr 3e-4",
        env="A=1\r\nB=x=y\r\n\r\n",
        labels="team=vision",
        requirements="torch\r\n",
        priority="HIGH",
        max_attempts="5",
        retry_on=["lost", "failed"],
        time_limit="1.5 h",
    )
    job = Job.objects.get()
    assert answer.url == reverse("job", args=[job.pk])
    assert (job.name, job.labels, job.priority, job.max_attempts) == ("digits", {"team": "vision"}, 1, 5)
    assert (job.retry_on, job.time_limit_seconds, job.owner) == (["failed", "lost"], 5400.0, mira)
    source = JobSource.objects.get()
    assert source.args == ["--name", "two words", "--lr", "3e-4"]
    assert source.env == {"A": "1", "B": "x=y"}
    assert source.requirements == "torch\n"


def test_a_script_keeps_its_spaces_and_gets_the_line_ends_it_was_written_with(mira, browser):
    send(browser(mira), script="\r\n  if x:\r\n    y()\r\n\r\n")
    assert JobSource.objects.get().script == "\n  if x:\n    y()\n\n"


def test_a_file_takes_the_place_of_the_text(mira, browser):
    send(browser(mira), script="", script_file=SimpleUploadedFile("train.py", "print('é')\r\n".encode()))
    assert JobSource.objects.get().script == "print('é')\r\n"


def test_a_script_with_a_syntax_error_is_accepted(mira, browser):
    assert send(browser(mira), script="def (:").status_code == 302


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"script": " \n"}, "The script is empty."),
        ({"script_file": SimpleUploadedFile("x.py", b"\xff\xfe\x00")}, "This file is not text in UTF-8."),
        ({"args": "it's"}, "This can&#x27;t be taken apart"),
        ({"env": "A=1\nB"}, "Line 2 is not of the form NAME=value."),
        ({"env": "A=1\nA=2"}, "Line 2 names A a second time."),
        ({"env": "RERAIL_X=1"}, "RERAIL_X can&#x27;t be set"),
        ({"labels": "bad key=1"}, "A label&#x27;s key has"),
        ({"max_attempts": "0"}, "greater than or equal to 1"),
        ({"max_attempts": "many"}, "Enter a whole number."),
        ({"time_limit": "soon"}, "Write a time such as"),
        ({"time_limit": "0"}, "It must be a number of seconds above 0"),
        ({"priority": "URGENT"}, "Select a valid choice."),
        ({"name": "x" * 201}, "at most 200 characters"),
    ],
)
def test_bad_input_is_told_beside_its_field_and_nothing_else_is_lost(mira, browser, changes, told):
    kept = {"labels": "keep=me", "requirements": "numpy # kept"}
    page = send(browser(mira), **kept | changes)
    assert page.status_code == 422
    content = page.content.decode()
    assert f'<p class="errors" id="id_{next(iter(changes))}_error">' in content
    assert told in content
    assert 'aria-invalid="true"' in content
    for field, value in (FILLED | kept).items():
        if field not in changes and isinstance(value, str):
            assert value in content
    assert not Job.objects.exists()


def test_the_text_of_a_file_stays_when_something_else_was_wrong(mira, browser):
    page = send(browser(mira), script="", script_file=SimpleUploadedFile("t.py", b"precious()"), max_attempts="0")
    assert ">\nprecious()</textarea>" in page.content.decode()


@pytest.mark.parametrize("way", ["script", "script_file"])
def test_a_script_beyond_two_mebibytes_is_refused_as_too_large(mira, browser, way):
    large = "x" * (2 * 1024 * 1024 + 1)
    page = send(browser(mira), **{way: SimpleUploadedFile("t.py", large.encode()) if way == "script_file" else large})
    assert page.status_code == 413
    assert b"larger than 2 MiB" in page.content
    assert send(browser(mira), script="#" * (2 * 1024 * 1024)).status_code == 302


def test_a_form_beyond_what_is_read_at_all_gets_a_page_that_says_so(mira, browser, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    page = send(browser(mira), script="x" * 2000)
    assert page.status_code == 413
    assert b"That was too large" in page.content


def test_submitting_is_limited_per_person_and_loses_nothing(mira, browser, settings):
    throttling.forget("submit", str(mira.pk))
    settings.SUBMISSIONS_PER_MINUTE = 1
    assert send(browser(mira)).status_code == 302
    refused = send(browser(mira), script="print('kept')")
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert b"print(&#x27;kept&#x27;)" in refused.content
    assert Job.objects.count() == 1
