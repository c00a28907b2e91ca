import re

import pytest
from django.test import Client
from django.urls import reverse

from jobs.views.policy import POLICY
from tests.integration.web.conftest import a_job

pytestmark = pytest.mark.django_db

INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", re.IGNORECASE)


def test_no_page_holds_script_or_style_of_its_own_and_each_forbids_it(admin, browser):
    job = a_job(admin)
    client = browser(admin)
    paths = ["/", f"/jobs/{job.pk}", "/submit", "/tokens", "/sign-in", "/nowhere", "/admin/", "/admin/jobs/job/",
             f"/admin/jobs/job/{job.pk}/change/"]  # fmt: skip
    for path in paths:
        page = client.get(path)
        assert page["Content-Security-Policy"] == POLICY, path
        assert not INLINE.search(page.content.decode()), path


def test_an_unknown_address_gets_a_page(browser, mira):
    page = browser(mira).get("/nowhere")
    assert page.status_code == 404
    assert b"Nothing here" in page.content


def test_a_bug_gets_a_page_without_a_trace_of_the_code(browser, mira, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("jobs.selectors.jobs.page", broken)
    client = browser(mira)
    client.raise_request_exception = False
    page = client.get("/")
    assert page.status_code == 500
    assert b"Something broke" in page.content
    assert b"secret detail" not in page.content
    assert b"Traceback" not in page.content


def test_the_menu_offers_what_the_person_may_do(mira, vera, olga, browser):
    assert b'href="/submit"' in browser(mira).get("/").content
    assert b'href="/submit"' not in browser(vera).get("/").content
    assert b'href="/admin/"' in browser(olga).get("/").content
    assert b'href="/admin/"' not in browser(mira).get("/").content


def test_htmx_and_our_modules_are_served_from_here(mira, browser):
    page = browser(mira).get("/").content.decode()
    addresses = re.findall(r'(?:src|href)="(/static/[^"#]+)', page)
    assert any("htmx" in address for address in addresses)
    for address in set(addresses):
        assert Client().get(address).status_code == 200, address


def test_reverse_names_are_those_that_others_link_to():
    assert [reverse("sign-in"), reverse("job-list"), reverse("job-submit"), reverse("job", args=[7])] == [
        "/sign-in", "/", "/submit", "/jobs/7",
    ]  # fmt: skip
