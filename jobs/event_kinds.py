"""What each kind of event tells people and programs: its meaning, and what its details may hold.

The docs are generated from this; a test holds it to the events that commands write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobs.states import EventKind


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A kind's sentence, and the keys that its `details` may have."""

    says: str
    details: Mapping[str, str] = field(default_factory=dict)


def _means(says: str, **details: str) -> Meaning:
    return Meaning(says=says, details=details)


_EXIT = {
    "exit_code": "of the script, where it exited",
    "signal": "that killed the script, by number",
    "resolver": "with `setup_failed`: the installer's last lines",
}
_CHECKPOINT = {"checkpoint": "its id, such as `1042/7`", "n": "its number", "step": "the script's step, or null"}

MEANINGS: dict[EventKind, Meaning] = {
    EventKind.SUBMITTED: _means("The job was handed in."),
    EventKind.DATASET_UPLOADED: _means(
        "Its dataset is here.", filename="as it was sent", size="in bytes", sha256="of its content"
    ),
    EventKind.DATASET_EXPIRED: _means("Its dataset did not come in time."),
    EventKind.QUEUED: _means("It waits for a worker."),
    EventKind.QUEUE_EXPIRED: _means("No worker took it within its queue timeout."),
    EventKind.ASSIGNED: _means(
        "A worker was chosen for its next execution.",
        worker="its name", fitted="how many free workers fitted", considered="how many were online",
    ),
    EventKind.REVIEW_REQUESTED: _means("The worker runs it only after an operator's approval."),
    EventKind.APPROVED: _means("An operator approved it for that worker."),
    EventKind.REJECTED: _means("An operator refused it for that worker."),
    EventKind.REVIEW_EXPIRED: _means("Nobody reviewed it in time."),
    EventKind.STARTED: _means(
        "The worker took the execution over.", worker="its name", phase="the phase it begins with"
    ),
    EventKind.PHASE_CHANGED: _means("The execution went on to its next phase.", phase="that phase"),
    EventKind.CHECKPOINT_SAVED: _means(
        "A snapshot of `output/` is stored whole.",
        **_CHECKPOINT, file_count="files in it", total_bytes="their size", new_bytes="what had to be stored for it",
        final="whether the script had ended well",
    ),
    EventKind.CHECKPOINT_FAILED: _means("A snapshot could not be stored; the one before stays current."),
    EventKind.CHECKPOINT_RESTORED: _means(
        "The execution goes on from a checkpoint.", **_CHECKPOINT, seconds="what restoring it took"
    ),
    EventKind.CHECKPOINT_REJECTED: _means(
        "A checkpoint is not whole; the one before it is tried.", checkpoint=_CHECKPOINT["checkpoint"],
        n=_CHECKPOINT["n"],
    ),
    EventKind.PRIORITY_CHANGED: _means(
        "Somebody changed its priority.", **{"from": "the priority before", "to": "the priority now"}
    ),
    EventKind.CANCEL_REQUESTED: _means("Somebody asked to stop it while it was running."),
    EventKind.CANCELLED: _means("The job ended: cancelled."),
    EventKind.RELEASED: _means("The execution was handed back without blame."),
    EventKind.LEASE_EXPIRED: _means(
        "The worker was silent for longer than its lease; the execution is lost.",
        silent_seconds="how long", worker="its name",
    ),
    EventKind.WORKER_CRASHED: _means("The execution's process died without a word; the execution is lost."),
    EventKind.EXECUTION_FAILED: _means("An attempt failed and will be retried.", **_EXIT),
    EventKind.REQUEUED: _means("The job is back in the queue."),
    EventKind.RETRY_SCHEDULED: _means(
        "The next attempt waits for its backoff to pass.",
        not_before="the earliest time", attempts_left="how many are left",
    ),
    EventKind.ATTEMPTS_EXHAUSTED: _means("A retry was due, but no attempt is left."),
    EventKind.TIME_LIMIT_REACHED: _means(
        "It trained for as long as it may; the script is asked to stop.", time_limit_seconds="that limit"
    ),
    EventKind.STALLED: _means("The script made no progress for as long as it may; it is asked to stop."),
    EventKind.SUCCEEDED: _means("The job ended: succeeded.", exit_code="always 0"),
    EventKind.FAILED: _means("The job ended: failed.", **_EXIT),
    EventKind.RESULT_REFUSED: _means(
        "An execution that was replaced came back with a result; nothing was changed.", outcome="what it said"
    ),
    EventKind.RESURFACED: _means("A worker that was taken for lost is back."),
}  # fmt: skip
