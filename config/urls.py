"""Where each part answers."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("jobs.api.urls")),
    path("admin/", admin.site.urls),
]
