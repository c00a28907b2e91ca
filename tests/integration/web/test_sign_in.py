from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs import throttling
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_limits():
    for account in ("mira", "nobody", "admin"):
        for address in ("127.0.0.1", "10.1.1.1", "10.1.1.2", "203.0.113.9"):
            throttling.forget("sign-in", f"{address} {account}")


def attempt(password: str, account: str = "mira", path: str = "sign-in", **extra: Any) -> Any:
    return Client(**extra).post(reverse(path), {"username": account, "password": password})


def test_whoever_is_not_signed_in_is_led_to_the_sign_in_page_and_back():
    response = Client().get(reverse("job-list") + "?state=running")
    assert response.status_code == 302
    assert response["Location"] == "/sign-in?next=/%3Fstate%3Drunning"


def test_a_right_password_opens_the_job_list(mira):
    response = attempt("secret")
    assert (response.status_code, response.url) == (302, "/")


def test_a_wrong_password_is_refused_without_saying_what_was_wrong(mira):
    page = attempt("wrong")
    assert page.status_code == 200
    assert b"do not belong together" in page.content
    assert attempt("wrong", account="nobody").content.count(b"do not belong together") == 1


def test_the_eleventh_failed_attempt_within_a_minute_is_refused_with_the_time_to_wait(mira, settings):
    for _ in range(settings.SIGN_IN_ATTEMPTS_PER_MINUTE):
        assert attempt("wrong").status_code == 200
    refused = attempt("secret")
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 60
    assert b"Too many attempts" in refused.content


def test_the_limit_is_per_account_and_per_address(mira, settings):
    settings.SIGN_IN_ATTEMPTS_PER_MINUTE = 1
    attempt("wrong", REMOTE_ADDR="10.1.1.1")
    assert attempt("wrong", REMOTE_ADDR="10.1.1.1").status_code == 429
    assert attempt("wrong", REMOTE_ADDR="10.1.1.2").status_code == 200
    assert attempt("wrong", account="nobody", REMOTE_ADDR="10.1.1.1").status_code == 200


def test_a_sign_in_that_succeeds_counts_for_nothing(mira, settings):
    settings.SIGN_IN_ATTEMPTS_PER_MINUTE = 2
    for _ in range(5):
        assert attempt("secret").status_code == 302


def test_the_admins_sign_in_is_under_the_same_limit(admin, settings):
    settings.SIGN_IN_ATTEMPTS_PER_MINUTE = 2
    attempt("wrong", account="admin", path="admin:login")
    attempt("wrong", account="admin")
    assert attempt("secret", account="admin", path="admin:login").status_code == 429


def test_a_forwarded_address_counts_only_behind_a_proxy_and_only_as_the_proxy_saw_it(mira, settings):
    settings.SIGN_IN_ATTEMPTS_PER_MINUTE = 1
    assert attempt("wrong", HTTP_X_FORWARDED_FOR="203.0.113.9").status_code == 200
    assert attempt("wrong", HTTP_X_FORWARDED_FOR="203.0.113.10").status_code == 429, "nobody invents an address"
    settings.RERAIL = replace(settings.RERAIL, behind_proxy=True)
    assert attempt("wrong", HTTP_X_FORWARDED_FOR="1.2.3.4, 203.0.113.9").status_code == 200
    assert attempt("wrong", HTTP_X_FORWARDED_FOR="9.9.9.9, 203.0.113.9").status_code == 429


def test_signing_out_needs_a_form_and_ends_the_session(mira, browser):
    client = browser(mira)
    assert client.get(reverse("sign-out")).status_code == 405
    assert client.post(reverse("sign-out")).url == reverse("sign-in")
    assert client.get(reverse("job-list")).status_code == 302


def test_somebody_without_a_role_is_told_whom_to_ask(browser, db):
    page = browser(factories.user(None, "nadia")).get(reverse("job-list"))
    assert page.status_code == 403
    assert b"has no role yet" in page.content
    assert b"operator" in page.content


def test_a_poll_whose_session_has_ended_takes_the_whole_page_to_the_sign_in():
    here = {"HX-Request": "true", "HX-Current-URL": "http://testserver/?q=digits"}
    answer = Client().get(reverse("job-rows"), headers=here)
    assert answer["HX-Redirect"] == "/sign-in?next=%2F%3Fq%3Ddigits"
