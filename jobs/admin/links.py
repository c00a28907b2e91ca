"""Ways out of the admin."""

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString


def dashboard_link(job_id: int) -> SafeString:
    return format_html('<a href="{}">Dashboard</a>', reverse("job", args=[job_id]))


def artifact_link(job_id: int) -> SafeString:
    address = reverse("api:download_artifact", args=[job_id])
    return format_html('<a href="{}" download>Download as tar.gz</a>', address)
