"""Addresses of the API that pages link to."""


def artifact_path(job_id: int) -> str:
    """Where a job's artifact is downloaded; the session of whoever looks at the page lets it through."""
    return f"/api/v1/jobs/{job_id}/artifact"
