"""Where a job is and why, in one sentence."""

from datetime import datetime

from jobs.models import Execution
from jobs.selectors.jobs import JobView
from jobs.selectors.watching import Watched
from jobs.states import JobState, Phase

_DOING = {
    Phase.PREPARING: "Preparing its script and environment",
    Phase.DOWNLOADING: "Downloading its dataset",
    Phase.RESTORING: "Restoring its checkpoint",
    Phase.TRAINING: "Training",
    Phase.PUBLISHING: "Publishing what it left in output/",
}


def sentence(watched: Watched, now: datetime) -> str:
    """What a person wants to know first."""
    job = watched.view
    if job.waiting is not None:
        return job.waiting
    if job.state == JobState.RUNNING:
        return _running(watched.latest, job, now)
    if job.state == JobState.SUCCEEDED:
        attempts = "at its first attempt" if job.attempt == 1 else f"at attempt {job.attempt}"
        return f"Succeeded on worker {job.worker_id}, {attempts}."
    return job.message or f"It is {job.state.lower()}."


def _running(latest: Execution | None, job: JobView, now: datetime) -> str:
    if latest is None:
        return "Running."
    where = f"on worker {latest.worker_name}, attempt {job.attempt}"
    lease = getattr(latest, "heartbeat", None)
    if lease is not None and lease.expires_at < now:
        silent = (now - lease.beat_at).total_seconds()
        return (
            f"Worker {latest.worker_name} has been silent for {silent:.0f} s; the reaper is about to requeue the job."
        )
    if job.cancel_requested_at is not None:
        return f"Stopping {where}: a cancel was asked for, and the script may save its work first."
    if latest.stop_requested_at is not None:
        return f"Stopping {where}: {latest.stop_reason.replace('_', ' ')}."
    doing = _DOING[Phase(latest.phase)] if latest.phase else "Running"
    since = f", resumed from checkpoint {latest.resumed_from.label}" if latest.resumed_from else ""
    return f"{doing} {where}{since}."
