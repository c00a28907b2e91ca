"""Where each part answers."""

from django.contrib import admin
from django.urls import include, path

from jobs.views.sign_in import SignIn

urlpatterns = [
    path("", include("jobs.api.urls")),
    path("", include("jobs.views.urls")),
    # Before the admin's own, so that there is one sign-in and one throttle.
    path("admin/login/", SignIn.as_view(), name="admin-sign-in"),
    path("admin/", admin.site.urls),
]

handler400 = "jobs.views.errors.bad_request"
handler403 = "jobs.views.errors.forbidden"
handler404 = "jobs.views.errors.not_found"
handler500 = "jobs.views.errors.server_error"
