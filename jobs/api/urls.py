"""Addresses of the API, and of what watches over it."""

from django.urls import path

from jobs.api import health, problems
from jobs.api.app import api

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1", problems.nothing_here),
    path("api/v1/", api.urls),
]
