"""Ways out of the admin."""

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString


def dashboard_link(job_id: int) -> SafeString:
    return format_html('<a href="{}">Dashboard</a>', reverse("job", args=[job_id]))


def artifact_link(job_id: int, n: int | None = None) -> SafeString:
    """To download a job's latest checkpoint, or its checkpoint `n`."""
    address = reverse("api:download_artifact", args=[job_id]) + ("" if n is None else f"?checkpoint={n}")
    return format_html('<a href="{}" download>Download as tar.gz</a>', address)
