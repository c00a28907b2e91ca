import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Event
from jobs.states import JobState
from tests.integration.web.conftest import Track, a_job

pytestmark = pytest.mark.django_db


def press(client: Client, action: str, job, **data):
    return client.post(reverse(f"job-{action}", args=[job.pk]), data, follow=True)


def test_an_owner_cancels_its_waiting_job(mira, browser):
    job = a_job(mira)
    page = press(browser(mira), "cancel", job)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert b"Cancelled by mira before it started." in page.content


def test_an_owner_asks_its_running_job_to_stop_and_the_button_goes(mira, browser, worker: Track):
    job = a_job(mira)
    worker.started(job)
    page = press(browser(mira), "cancel", job)
    job.refresh_from_db()
    assert job.cancel_requested_at is not None
    assert b"Asked to stop" in page.content
    assert b'popovertarget="ask-cancel">' not in page.content


def test_an_owner_requeues_its_failed_job(mira, browser, worker: Track):
    job = a_job(mira)
    worker.failed(job)
    press(browser(mira), "requeue", job, from_checkpoint="none")
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_what_a_command_refuses_is_told_in_its_own_words(mira, browser):
    job = a_job(mira)
    assert b"has not ended yet" in press(browser(mira), "requeue", job).content
    press(browser(mira), "cancel", job)
    assert b"has already ended" in press(browser(mira), "cancel", job).content
    assert b"is not a checkpoint of job" in press(browser(mira), "requeue", job, from_checkpoint="x").content


def test_a_foreign_job_can_be_acted_on_by_operators_alone(mira, jonas, olga, browser):
    job = a_job(jonas)
    assert press(browser(mira), "cancel", job).status_code == 404
    assert Event.objects.filter(job=job, kind="cancelled").count() == 0
    assert press(browser(olga), "cancel", job).status_code == 200
    assert Event.objects.filter(job=job, kind="cancelled").count() == 1


def test_a_viewer_sees_no_buttons_and_is_refused(mira, vera, browser):
    job = a_job(mira)
    client = browser(vera)
    page = client.get(reverse("job", args=[job.pk])).content
    assert b"ask-cancel" not in page
    assert press(client, "cancel", job).status_code == 403
    assert press(client, "requeue", job).status_code == 403
    assert client.post(reverse("job-submit"), {"script": "print(1)"}).status_code == 403
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_acting_takes_a_form_of_ours(mira, browser):
    job = a_job(mira)
    assert browser(mira).get(reverse("job-cancel", args=[job.pk])).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(mira)
    refused = strict.post(reverse("job-cancel", args=[job.pk]))
    assert refused.status_code == 403
    assert b"The form has gone stale" in refused.content
