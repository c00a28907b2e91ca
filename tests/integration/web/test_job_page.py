import re

import pytest
from django.urls import reverse

from jobs.commands import checkpoints, logs, metrics
from jobs.commands.checkpoints import Snapshot
from jobs.models import Heartbeat
from jobs.states import ExecutionState
from tests.integration.web.conftest import Track, a_job

pytestmark = pytest.mark.django_db


def text(page) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.content.decode()))


def poll(page) -> str:
    found = re.search(r'id="poll" data-poll hx-get="([^"]+)"', page.content.decode())
    assert found
    return found[1].replace("&amp;", "&")


def at(job) -> str:
    return reverse("job", args=[job.pk])


def save(lease, step: int, times: int = 1) -> None:
    snapshot = Snapshot(manifest_key="k", file_count=1, total_bytes=2048, new_bytes=1, step=step, final=False)
    for _ in range(times):
        checkpoints.commit(lease, snapshot)


def test_a_foreign_job_is_not_there_at_any_of_its_addresses(mira, jonas, browser):
    job = a_job(jonas)
    client = browser(mira)
    for name in ("job", "job-live", "job-timeline", "job-script"):
        assert client.get(reverse(name, args=[job.pk])).status_code == 404, name


def test_a_number_beyond_all_jobs_is_not_there(mira, browser):
    assert browser(mira).get("/jobs/99999999999999999999999").status_code == 404


def test_a_waiting_job_says_why_it_waits(mira, browser):
    assert "No worker is online." in text(browser(mira).get(at(a_job(mira))))


def test_a_running_job_says_where_and_what_it_does(mira, browser, worker: Track):
    job = a_job(mira)
    worker.started(job)
    assert "Training on worker atlas-1, attempt 1." in text(browser(mira).get(at(job)))


def test_a_silent_worker_is_told_as_soon_as_its_lease_has_run_out(mira, browser, worker: Track):
    job = a_job(mira)
    worker.started(job)
    beat = Heartbeat.objects.get()
    Heartbeat.objects.update(expires_at=beat.beat_at)
    assert "Worker atlas-1 has been silent for" in text(browser(mira).get(at(job)))


def test_a_failed_job_says_what_its_worker_said(mira, browser, worker: Track):
    job = a_job(mira)
    worker.failed(job)
    page = text(browser(mira).get(at(job)))
    assert "The script exited with code 3." in page
    assert "script_error" in page


def test_attempts_are_listed_with_worker_and_what_became_of_them(mira, browser, worker: Track):
    job = a_job(mira)
    lease = worker.started(job)
    worker.lost(job, lease)
    page = text(browser(mira).get(at(job)))
    assert f"{job.pk}.1 Lost atlas-1 The execution process was killed by SIGKILL." in page


def test_the_timeline_groups_events_under_their_attempts_in_order(mira, browser, worker: Track):
    job = a_job(mira)
    worker.started(job)
    page = text(browser(mira).get(at(job)))
    parts = [
        "Submitted by mira.",
        f"Attempt {job.pk}.1",
        "Assigned to worker",
        "Started on worker atlas-1.",
        "Training.",
    ]
    places = [page.index(part, page.index("Timeline")) for part in parts]
    assert places == sorted(places)


def test_many_checkpoints_in_a_row_are_told_as_one_line(mira, browser, worker: Track):
    job = a_job(mira)
    save(worker.started(job), step=7, times=6)
    assert f"6 checkpoints saved, the last {job.pk}/6 at step 7" in text(browser(mira).get(at(job)))


def test_a_long_timeline_shows_its_end_and_leads_back_to_its_beginning(mira, browser, worker: Track, monkeypatch):
    monkeypatch.setattr("jobs.views.job_page.EVENTS_SHOWN", 4)
    job = a_job(mira)
    save(worker.started(job), step=1, times=3)
    client = browser(mira)
    page = client.get(at(job))
    assert "Submitted by mira." not in text(page)
    addresses = set()
    while found := re.search(r'hx-get="([^"]+before=\d+)"', page.content.decode()):
        assert found[1] not in addresses
        addresses.add(found[1])
        page = client.get(found[1])
    assert "Submitted by mira." in text(page)


def test_the_log_ends_with_what_the_script_printed_last_without_its_colours(mira, browser, worker: Track):
    job = a_job(mira)
    worker.started(job, log=b"epoch 1\n" * 9000 + b"10%\r55%\r100%\n\x1b[31mBoom\x1b[0m <b>\n")
    page = browser(mira).get(at(job)).content.decode()
    assert "\n100%\nBoom &lt;b&gt;\n</pre>" in page
    assert len(page) < 60_000


def test_the_artifact_can_be_downloaded_once_there_is_a_checkpoint(mira, browser, worker: Track):
    job = a_job(mira)
    lease = worker.started(job)
    assert b"Download artifact" not in browser(mira).get(at(job)).content
    save(lease, step=3)
    assert f'href="/api/v1/jobs/{job.pk}/artifact"' in browser(mira).get(at(job)).content.decode()


def test_the_script_is_shown_with_the_names_of_its_environment_and_never_their_values(mira, browser):
    job = a_job(mira, script="print('<3')", env={"API_KEY": "swordfish"})
    client = browser(mira)
    part = client.get(reverse("job-script", args=[job.pk]), headers={"HX-Request": "true"}).content.decode()
    assert "print(&#x27;&lt;3&#x27;)" in part
    assert "API_KEY" in part
    assert "swordfish" not in part + client.get(at(job)).content.decode()
    plain = client.get(reverse("job-script", args=[job.pk]))
    assert (plain.content, plain["Content-Type"]) == (b"print('<3')", "text/plain; charset=utf-8")


def test_a_live_look_answers_nothing_while_nothing_happened(
    mira, browser, worker: Track, django_assert_max_num_queries
):
    job = a_job(mira)
    worker.started(job)
    client = browser(mira)
    address = poll(client.get(at(job)))
    with django_assert_max_num_queries(5):
        assert client.get(address).status_code == 204


def test_a_live_look_brings_new_events_state_and_attempts(mira, browser, worker: Track):
    job = a_job(mira)
    client = browser(mira)
    address = poll(client.get(at(job)))
    worker.started(job, log=b"hello\n")
    changed = client.get(address)
    assert "Training on worker atlas-1" in text(changed)
    assert "Started on worker atlas-1." in text(changed)
    assert "hello" in text(changed)
    assert client.get(poll(changed)).status_code == 204


def test_a_live_look_brings_each_byte_of_the_log_once_in_whole_lines(mira, browser, worker: Track):
    job = a_job(mira)
    lease = worker.started(job, log=b"one\ntw")
    client = browser(mira)
    page = client.get(at(job))
    assert "one\n</pre>" in page.content.decode()
    logs.append(lease, 6, b"o\nthr")
    following = client.get(poll(page))
    assert '<div hx-swap-oob="beforeend:#log-text">two\n</div>' in following.content.decode()
    logs.append(lease, 11, b"ee\n")
    assert '<div hx-swap-oob="beforeend:#log-text">three\n</div>' in client.get(poll(following)).content.decode()


def test_progress_alone_is_news_enough(mira, browser, worker: Track):
    job = a_job(mira)
    lease = worker.started(job)
    client = browser(mira)
    address = poll(client.get(at(job)))
    metrics.append(lease, 0, 10, [], metrics.Progress(step=0, total=30, rate=None))
    changed = client.get(address)
    assert "Step 0 of 30" in text(changed)
    assert 'id="timeline"' not in changed.content.decode()


def test_a_live_look_with_a_broken_address_loads_the_page_afresh(mira, browser):
    job = a_job(mira)
    for seen in ("", "1.2.3", "a.b.c.d.e.f.g", "1." * 7, "9" * 400):
        assert browser(mira).get(reverse("job-live", args=[job.pk]), {"seen": seen})["HX-Refresh"] == "true"


def test_a_job_with_many_attempts_and_events_takes_as_few_statements_as_one_with_few(
    mira, browser, worker: Track, django_assert_max_num_queries
):
    job = a_job(mira, max_attempts=50)
    client = browser(mira)
    for _ in range(3):
        lease = worker.started(job, log=b"line\n")
        save(lease, step=1, times=4)
        worker.lost(job, lease)
    worker.started(job, log=b"line\n")
    with django_assert_max_num_queries(12):
        page = client.get(at(job))
    assert page.content.decode().count(f">{ExecutionState.LOST.value.capitalize()}<") == 3
