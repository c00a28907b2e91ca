"""Datasets on the dashboard: chosen with the job, sent and shown on its page."""

from django.test import Client
from django.urls import reverse

from jobs.commands import datasets
from jobs.models import Dataset, Job
from tests import factories
from tests.integration.web.test_submission import send

SENT = {"filename": "digits.csv", "name": "digits"}


def page(client: Client, job: Job) -> str:
    return client.get(reverse("job", args=[job.pk])).content.decode()


def test_a_shared_dataset_is_chosen_by_its_name_and_shown_on_the_jobs_page(mira, jonas, browser, tmp_path, settings):
    datasets.share(jonas, factories.Sent(b"1,2", **SENT))
    client = browser(mira)
    assert '<option value="digits">digits</option>' in client.get(reverse("job-submit")).content.decode()
    send(client, dataset_ref="digits")
    job = Job.objects.get()
    assert job.dataset == Dataset.objects.get()
    assert "digits, digits.csv, 3\xa0bytes" in page(client, job)
    assert "data-upload" not in page(client, job)


def test_a_dataset_that_there_is_not_is_no_choice(mira, browser):
    answer = send(browser(mira), dataset_ref="none")
    assert answer.status_code == 422
    assert not Job.objects.exists()


def test_a_job_that_waits_for_its_dataset_asks_its_owner_for_it_and_nobody_else(mira, vera, browser):
    send(browser(mira), dataset_ref="upload")
    job = Job.objects.get()
    assert job.state == "AWAITING_DATASET"
    assert f'data-upload="/api/v1/jobs/{job.pk}/upload"' in page(browser(mira), job)
    assert "data-upload" not in page(browser(vera), job)
    datasets.upload(job.pk, mira, factories.Sent(b"1,2"))
    assert "data-upload" not in page(browser(mira), job)
