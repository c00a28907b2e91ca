import re

import pytest
from django.urls import reverse

from jobs.models import Job
from tests.integration.web.conftest import Track, a_job

pytestmark = pytest.mark.django_db


def names(page) -> list[str]:
    return re.findall(r'class="job-name"[^>]*title="([^"]*)"', page.content.decode())


def poll(page) -> str:
    found = re.search(r'id="list" data-poll hx-get="([^"]+)"', page.content.decode())
    assert found
    return found[1].replace("&amp;", "&")


def test_a_member_sees_its_own_jobs_and_nobody_elses(mira, jonas, browser):
    a_job(mira, "mine")
    a_job(jonas, "yours")
    assert names(browser(mira).get("/")) == ["mine"]


def test_operators_and_viewers_see_all_newest_first(mira, jonas, olga, vera, browser):
    a_job(mira, "first")
    a_job(jonas, "second")
    for person in (olga, vera):
        assert names(browser(person).get("/")) == ["second", "first"]


def test_the_address_carries_state_and_search(mira, browser, worker: Track):
    worker.succeeded(a_job(mira, "resnet"))
    worker.succeeded(a_job(mira, "bert"))
    a_job(mira, "resnet again")
    client = browser(mira)
    assert names(client.get("/?state=succeeded&q=resnet")) == ["resnet"]
    assert names(client.get("/?state=QUEUED")) == ["resnet again"]
    assert names(client.get("/?state=waiting")) == ["resnet again"]


def test_what_means_nothing_in_the_address_is_left_out(mira, browser):
    a_job(mira)
    for query in ("state=nonsense", "cursor=%00%ff", "cursor=e30", "q=%00", "state=" + "x" * 5000):
        assert browser(mira).get(f"/?{query}").status_code == 200


def test_a_search_without_a_match_says_so_and_an_empty_list_offers_to_submit(mira, vera, browser):
    assert b"Submit a training script" in browser(mira).get("/").content
    assert b"No job matches" in browser(mira).get("/?q=zzz").content
    assert b"Submit a" not in browser(vera).get("/").content


def test_pages_follow_each_other_without_gap_or_repetition(mira, browser, monkeypatch):
    monkeypatch.setattr("jobs.views.job_list.PER_PAGE", 2)
    for number in range(5):
        a_job(mira, f"job {number}")
    client, seen, address = browser(mira), [], "/"
    while address:
        page = client.get(address)
        seen += names(page)
        following = re.search(r'href="([^"]+)" rel="next"', page.content.decode())
        address = following[1].replace("&amp;", "&") if following else ""
    assert seen == ["job 4", "job 3", "job 2", "job 1", "job 0"]


def test_a_poll_answers_nothing_while_nothing_changed_and_the_rows_once_something_did(mira, browser, worker: Track):
    job = a_job(mira)
    client = browser(mira)
    address = poll(client.get("/"))
    assert client.get(address).status_code == 204
    worker.started(job)
    changed = client.get(address)
    assert changed.status_code == 200
    assert b"Running" in changed.content
    assert client.get(poll(changed)).status_code == 204


def test_rows_keep_their_places_though_they_no_longer_match_and_newer_jobs_are_announced(mira, browser, worker: Track):
    job = a_job(mira, "was waiting")
    client = browser(mira)
    address = poll(client.get("/?state=waiting"))
    worker.started(job)
    a_job(mira, "came later")
    changed = client.get(address)
    assert names(changed) == ["was waiting"]
    assert b"1 newer job<" in changed.content


def test_a_poll_shows_no_job_that_its_viewer_may_not_see(mira, jonas, browser):
    foreign = a_job(jonas, "yours")
    answer = browser(mira).get(reverse("job-rows"), {"ids": f"{foreign.pk},x,,99999999999999999999"})
    assert names(answer) == []


def test_the_list_takes_the_same_few_statements_however_long_it_is(mira, browser, django_assert_max_num_queries):
    client = browser(mira)
    for number in range(30):
        a_job(mira, f"job {number}")
    with django_assert_max_num_queries(9):
        page = client.get("/")
    with django_assert_max_num_queries(9):
        assert client.get(poll(page)).status_code == 204


def test_names_are_shown_as_text(mira, browser):
    a_job(mira, "<script>alert(1)</script>")
    assert b"<script>alert" not in browser(mira).get("/").content
    assert Job.objects.get().name == "<script>alert(1)</script>"
