"""What watches over an installation asks: no prefix, no sign-in, nothing revealed but how it is."""

from dataclasses import asdict

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from jobs.selectors import census, health


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Every part that jobs need answers, else 503; the parts are named."""
    checks = health.readiness()
    ready = all(check.ok for check in checks.values())
    document = {
        "status": "ready" if ready else "not ready",
        "checks": {name: asdict(check) for name, check in checks.items()},
    }
    return JsonResponse(document, status=200 if ready else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus's text format."""
    return HttpResponse(generate_latest(_measured()), content_type=CONTENT_TYPE_LATEST)


def _measured() -> CollectorRegistry:
    # A registry per scrape: all is read from the database, so any number of web processes tell the same.
    registry = CollectorRegistry()
    now = census.take()
    jobs = Gauge("rerail_jobs", "Jobs that have not ended (counted up to 100,000)", ["state"], registry=registry)
    for state, number in now.jobs.items():
        jobs.labels(state).set(number)
    workers = Gauge("rerail_workers", "Workers", ["state"], registry=registry)
    for state, number in now.workers.items():
        workers.labels(state).set(number)
    paused = Gauge("rerail_queue_paused", "1 while an operator holds the queue", registry=registry)
    paused.set(now.queue_paused)
    oldest = Gauge("rerail_queue_oldest_seconds", "How long the first of the queue has waited", registry=registry)
    oldest.set(now.oldest_queued_seconds)
    age = Gauge("rerail_reaper_sweep_age_seconds", "Since the reaper's last sweep", registry=registry)
    swept = health.sweep_age()
    age.set(float("inf") if swept is None else swept)
    return registry
