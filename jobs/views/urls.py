"""Addresses of the dashboard."""

from django.contrib.auth.views import LogoutView
from django.templatetags.static import static
from django.urls import path
from django.views.generic import RedirectView

from jobs.views import actions, job_list, job_page, submission, tokens
from jobs.views.sign_in import SignIn

urlpatterns = [
    # Browsers ask for it on pages that name no icon, the admin's among them.
    path("favicon.ico", RedirectView.as_view(url=static("rerail/favicon.svg"))),
    path("", job_list.job_list, name="job-list"),
    path("jobs/rows", job_list.rows, name="job-rows"),
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("submit", submission.submit, name="job-submit"),
    path("jobs/<int:job_id>", job_page.job, name="job"),
    path("jobs/<int:job_id>/live", job_page.live, name="job-live"),
    path("jobs/<int:job_id>/timeline", job_page.earlier, name="job-timeline"),
    path("jobs/<int:job_id>/script", job_page.script, name="job-script"),
    path("jobs/<int:job_id>/cancel", actions.cancel, name="job-cancel"),
    path("jobs/<int:job_id>/requeue", actions.requeue, name="job-requeue"),
    path("tokens", tokens.token_list, name="tokens"),
    path("tokens/create", tokens.create, name="token-create"),
    path("tokens/<int:token_id>/revoke", tokens.revoke, name="token-revoke"),
]
