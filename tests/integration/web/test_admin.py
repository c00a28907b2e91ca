import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.commands import checkpoints, logs, metrics, tokens
from jobs.commands.checkpoints import Snapshot
from jobs.models import Job, Token, Worker
from jobs.states import JobState
from tests import factories
from tests.integration.web.conftest import Track, a_job

pytestmark = pytest.mark.django_db

MODELS: list[Any] = list(apps.get_app_config("jobs").get_models())


def act(client, model: str, action: str, *rows):
    data = {"action": action, "_selected_action": [row.pk for row in rows]}
    return client.post(reverse(f"admin:jobs_{model}_changelist"), data, follow=True)


def told(page) -> list[str]:
    return [str(message) for message in page.context["messages"]]


@pytest.fixture
def full(mira, worker: Track):
    """One row, at least, of nearly everything."""
    job = a_job(mira, env={"KEY": "swordfish"})
    lease = worker.started(job)
    logs.append(lease, 0, b"hello from the script\n")
    metrics.append(lease, 0, 9, [factories.point(1)], metrics.Progress(step=1, total=2, rate=None))
    checkpoints.commit(lease, Snapshot(manifest_key="k", file_count=1, total_bytes=1, new_bytes=1, step=1, final=False))
    tokens.issue(mira, "laptop")
    return job


def test_every_model_is_there():
    assert {model for model in site._registry if model._meta.app_label == "jobs"} == set(MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_lists_and_rows_of_every_model_open_and_let_nobody_add_change_or_delete(admin, browser, full, model):
    client = browser(admin)
    name = f"admin:jobs_{model._meta.model_name}"
    page = client.get(reverse(f"{name}_changelist"), {"q": "x"})
    assert page.status_code == 200
    assert client.get(reverse(f"{name}_changelist")).status_code == 200
    assert client.get(reverse(f"{name}_add")).status_code == 403
    if row := model.objects.first():
        shown = client.get(reverse(f"{name}_change", args=[row.pk]))
        assert shown.status_code == 200
        assert b'name="_save"' not in shown.content
        assert client.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403
        assert client.get(reverse(f"{name}_delete", args=[row.pk])).status_code == 403


def test_no_page_shows_a_value_of_an_environment_or_a_digest_or_a_fence(admin, browser, full):
    client = browser(admin)
    secrets = ["swordfish", Token.objects.get().digest, str(Worker.objects.get().boot_nonce),
               str(full.executions.get().nonce)]  # fmt: skip
    for model in MODELS:
        name = f"admin:jobs_{model._meta.model_name}"
        rows = [reverse(f"{name}_change", args=[row.pk]) for row in model.objects.all()[:1]]
        for address in [reverse(f"{name}_changelist"), *rows]:
            content = client.get(address).content.decode()
            assert not [secret for secret in secrets if secret in content], address


def test_cancel_acts_like_the_api_and_reports_each_refusal(admin, mira, browser, worker: Track):
    ended, running, waiting = a_job(mira), a_job(mira), a_job(mira)
    worker.succeeded(ended)
    worker.started(running)
    page = act(browser(admin), "job", "cancel", ended, running, waiting)
    states = {job.pk: (job.state, job.cancel_requested_at is not None) for job in Job.objects.all()}
    assert states[waiting.pk] == (JobState.CANCELLED, False)
    assert states[running.pk] == (JobState.RUNNING, True)
    assert states[ended.pk] == (JobState.SUCCEEDED, False)
    assert told(page) == [
        "Cancelled or asked to stop: 2.",
        f"Job {ended.pk} has already ended (succeeded); there is nothing to cancel.",
    ]


def test_requeue_acts_like_the_api_and_reports_each_refusal(admin, mira, browser, worker: Track):
    ended, waiting = a_job(mira), a_job(mira)
    worker.failed(ended)
    page = act(browser(admin), "job", "requeue", ended, waiting)
    ended.refresh_from_db()
    assert ended.state == JobState.QUEUED
    assert told(page) == ["Requeued: 1.", f"Job {waiting.pk} has not ended yet (queued); cancel it first."]


def test_a_job_is_found_by_its_number_and_leads_to_the_dashboard_and_its_artifact(admin, browser, full):
    client = browser(admin)
    assert f'href="/jobs/{full.pk}"' in client.get("/admin/jobs/job/", {"q": str(full.pk)}).content.decode()
    shown = client.get(f"/admin/jobs/job/{full.pk}/change/").content.decode()
    assert f'href="/jobs/{full.pk}"' in shown
    assert f'href="/api/v1/jobs/{full.pk}/artifact"' in shown
    assert "print(&#x27;hello&#x27;)" in shown


def test_operators_on_the_staff_act_and_viewers_only_look(olga, vera, mira, browser):
    job = a_job(mira)
    assert 'value="cancel"' in browser(olga).get("/admin/jobs/job/").content.decode()
    looked_at = browser(vera).get("/admin/jobs/job/")
    assert looked_at.status_code == 200
    assert 'value="cancel"' not in looked_at.content.decode()
    act(browser(vera), "job", "cancel", job)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    act(browser(olga), "job", "cancel", job)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED


def test_staff_without_a_role_that_sees_all_is_shown_no_jobs(browser, db):
    client = browser(factories.user("member", "stella", is_staff=True))
    assert client.get("/admin/jobs/job/").status_code == 403
    assert client.get("/admin/").status_code == 200


@pytest.mark.parametrize(("action", "mode"), [("drain", "draining"), ("disable", "disabled"), ("resume", "active")])
def test_workers_are_told_whether_to_take_work(admin, browser, worker: Track, action, mode):
    act(browser(admin), "worker", action, Worker.objects.get())
    assert Worker.objects.get().mode == mode


def test_a_worker_leaves_quarantine_by_its_own_action_alone(admin, browser, worker: Track):
    refused = act(browser(admin), "worker", "release_quarantine", Worker.objects.get())
    assert told(refused) == ["Worker atlas-1 is not in quarantine."]
    Worker.objects.update(mode="quarantined")
    act(browser(admin), "worker", "release_quarantine", Worker.objects.get())
    assert Worker.objects.get().mode == "active"


def test_a_token_is_revoked_once(admin, mira, browser):
    tokens.issue(mira, "laptop")
    assert told(act(browser(admin), "token", "revoke", Token.objects.get())) == ["Revoked: 1."]
    assert "revoked before" in told(act(browser(admin), "token", "revoke", Token.objects.get()))[0]


def test_lists_count_no_further_than_their_bound_and_ask_as_much_for_many_rows_as_for_one(admin, mira, browser, worker):
    client = browser(admin)
    worker.succeeded(a_job(mira))
    statements = []
    for _ in range(2):
        for name in ("job", "execution", "event"):
            with CaptureQueriesContext(connection) as captured:
                client.get(reverse(f"admin:jobs_{name}_changelist"))
            statements.append(len(captured))
            counts = [query["sql"] for query in captured if "COUNT(" in query["sql"]]
            assert counts
            assert all("LIMIT 10000" in sql for sql in counts)
        for _ in range(10):
            worker.succeeded(a_job(mira))
    assert statements[:3] == statements[3:]
    assert max(statements) <= 9


def test_the_admins_front_page_opens_and_signs_out(admin, browser):
    client = browser(admin)
    page = client.get("/admin/").content.decode()
    assert re.search(r'href="/admin/jobs/job/"', page)
    assert client.post("/admin/logout/").url == "/sign-in"
