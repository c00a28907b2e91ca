import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from django.conf import settings
from django.test import Client

BEHIND_A_PROXY = {
    "RERAIL_BEHIND_PROXY": "true",
    "RERAIL_SECRET_KEY": "k3" * 40 + "mYq-zA",
    "RERAIL_ALLOWED_HOSTS": "rerail.example.org",
    "RERAIL_TRUSTED_ORIGINS": "https://rerail.example.org",
}


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RERAIL_") or "DATA" in name}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_deployment_check_finds_nothing_behind_a_proxy():
    checked = manage("check", "--deploy", "--fail-level", "WARNING", **BEHIND_A_PROXY)
    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout


def test_behind_a_proxy_cookies_travel_by_tls_alone_and_its_word_on_the_scheme_is_believed():
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_SSL_REDIRECT", "SECURE_PROXY_SSL_HEADER",
             "CSRF_TRUSTED_ORIGINS", "SECURE_REDIRECT_EXEMPT", "SECURE_HSTS_SECONDS")  # fmt: skip
    code = f"import json; from django.conf import settings as s; print(json.dumps([getattr(s, n) for n in {names!r}]))"
    shown = manage("shell", "--verbosity", "0", "-c", code, **BEHIND_A_PROXY)
    assert shown.returncode == 0, shown.stderr
    secure, csrf, redirect, header, origins, exempt, hsts = json.loads(shown.stdout)
    assert (secure, csrf, redirect) == (True, True, True)
    assert header == ["HTTP_X_FORWARDED_PROTO", "https"]
    assert origins == ["https://rerail.example.org"]
    assert exempt == [r"^(healthz|readyz|metrics)$"]
    assert hsts > 0


@pytest.mark.django_db
def test_without_a_proxy_nobody_can_claim_a_scheme(settings):
    assert not settings.RERAIL.behind_proxy
    assert settings.SECURE_PROXY_SSL_HEADER is None
    assert Client().get("/sign-in", headers={"X-Forwarded-Proto": "https"}).wsgi_request.is_secure() is False


@pytest.mark.django_db
def test_behind_a_proxy_plain_requests_are_sent_to_tls_and_forms_of_trusted_origins_accepted(settings, mira):
    settings.RERAIL = replace(settings.RERAIL, behind_proxy=True)
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ALLOWED_HOSTS = ["rerail.example.org"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://rerail.example.org"]
    plain = Client(headers={"Host": "rerail.example.org"})
    assert plain.get("/sign-in")["Location"] == "https://rerail.example.org/sign-in"
    assert plain.get("/healthz").status_code == 200, "health checks come from inside"
    client = Client(enforce_csrf_checks=True, headers={"Host": "rerail.example.org", "X-Forwarded-Proto": "https"})
    client.get("/sign-in")
    token = client.cookies["csrftoken"].value
    form = {"username": "mira", "password": "secret", "csrfmiddlewaretoken": token}
    assert client.post("/sign-in", form, headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.post("/sign-in", form, headers={"Origin": "https://rerail.example.org"}).status_code == 302
