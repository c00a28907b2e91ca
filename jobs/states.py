"""The life of a job: every state, every command, and the one table of edges between them.

The table is the contract. `transition.take` refuses whatever is not in it, the docs are generated from it, and a test
walks every (state, command) pair against it. Nothing here imports Django or the rest of the application.
"""

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is. The first four are *waiting*, the last three final."""

    AWAITING_DATASET = "AWAITING_DATASET"
    """Parked until its dataset is uploaded; left by the owner, or by the reaper at the time limit."""
    QUEUED = "QUEUED"
    """Ready for any worker that fits; left by the dispatcher."""
    ASSIGNED = "ASSIGNED"
    """Handed to one worker that has not started it yet."""
    PENDING_REVIEW = "PENDING_REVIEW"
    """Handed to a worker whose operator must approve it first."""
    RUNNING = "RUNNING"
    """One execution holds the lease and runs it."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class ExecutionState(StrEnum):
    """Where one attempt is. The first three are *active*: at most one of them per job and per worker."""

    ASSIGNED = "ASSIGNED"
    PENDING_REVIEW = "PENDING_REVIEW"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """The worker saw it fail."""
    LOST = "LOST"
    """Nobody saw it end: its process or its whole worker went away."""
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"
    """The reviewer said no, or nothing."""
    RELEASED = "RELEASED"
    """Handed back without blame: a drain, or it never started."""


class Phase(StrEnum):
    """What a RUNNING execution is doing; only `training` counts towards the time limit."""

    PREPARING = "preparing"
    DOWNLOADING = "downloading"
    RESTORING = "restoring"
    TRAINING = "training"
    PUBLISHING = "publishing"


class Actor(StrEnum):
    """Who may send a command."""

    USER = "user"
    OPERATOR = "operator"
    DISPATCHER = "dispatcher"
    WORKER = "worker"
    REAPER = "reaper"


class Command(StrEnum):
    """What moves a job from one state to the next."""

    SUBMIT = "submit"
    ATTACH_DATASET = "attach_dataset"
    EXPIRE_DATASET = "expire_dataset"
    GIVE_UP = "give_up"
    EXPIRE_QUEUE = "expire_queue"
    ASSIGN = "assign"
    APPROVE = "approve"
    REJECT = "reject"
    EXPIRE_REVIEW = "expire_review"
    START = "start"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    STOP = "stop"
    RELEASE = "release"
    LOSE = "lose"
    REQUEUE = "requeue"


class Reason(StrEnum):
    """Why an execution or a job ended, for programs; the sentence for people is the message beside it."""

    WORKER_CRASHED = "worker_crashed"
    LEASE_EXPIRED = "lease_expired"
    DISK_FULL = "disk_full"
    PUBLISH_FAILED = "publish_failed"

    SCRIPT_ERROR = "script_error"
    KILLED_BY_SIGNAL = "killed_by_signal"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    SETUP_FAILED = "setup_failed"
    DATASET_MISSING = "dataset_missing"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"

    NEVER_STARTED = "never_started"
    DRAINED = "drained"
    REJECTED = "rejected"
    REVIEW_TIMEOUT = "review_timeout"
    DATASET_TIMEOUT = "dataset_timeout"
    QUEUE_TIMEOUT = "queue_timeout"
    CANCELLED = "cancelled"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"


class ReasonClass(StrEnum):
    """What `retry_on` names."""

    LOST = "lost"
    FAILED = "failed"


class EventKind(StrEnum):
    """What a timeline tells, in the past tense."""

    SUBMITTED = "submitted"
    DATASET_UPLOADED = "dataset_uploaded"
    DATASET_EXPIRED = "dataset_expired"
    QUEUED = "queued"
    QUEUE_EXPIRED = "queue_expired"
    ASSIGNED = "assigned"
    REVIEW_REQUESTED = "review_requested"
    APPROVED = "approved"
    REJECTED = "rejected"
    REVIEW_EXPIRED = "review_expired"
    STARTED = "started"
    PHASE_CHANGED = "phase_changed"
    CHECKPOINT_SAVED = "checkpoint_saved"
    CHECKPOINT_FAILED = "checkpoint_failed"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    CHECKPOINT_REJECTED = "checkpoint_rejected"
    PRIORITY_CHANGED = "priority_changed"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    RELEASED = "released"
    LEASE_EXPIRED = "lease_expired"
    WORKER_CRASHED = "worker_crashed"
    EXECUTION_FAILED = "execution_failed"
    REQUEUED = "requeued"
    RETRY_SCHEDULED = "retry_scheduled"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    TIME_LIMIT_REACHED = "time_limit_reached"
    STALLED = "stalled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RESULT_REFUSED = "result_refused"
    RESURFACED = "resurfaced"


WAITING = frozenset({JobState.AWAITING_DATASET, JobState.QUEUED, JobState.ASSIGNED, JobState.PENDING_REVIEW})
FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
HELD = frozenset({JobState.ASSIGNED, JobState.PENDING_REVIEW, JobState.RUNNING})
"""The job states in which one execution is current; the same names are the execution states called active."""
ACTIVE = frozenset({ExecutionState.ASSIGNED, ExecutionState.PENDING_REVIEW, ExecutionState.RUNNING})
UNSTARTED = ACTIVE - {ExecutionState.RUNNING}

REASON_CLASS: dict[Reason, ReasonClass] = {
    Reason.WORKER_CRASHED: ReasonClass.LOST,
    Reason.LEASE_EXPIRED: ReasonClass.LOST,
    Reason.DISK_FULL: ReasonClass.LOST,
    Reason.PUBLISH_FAILED: ReasonClass.LOST,
    Reason.SCRIPT_ERROR: ReasonClass.FAILED,
    Reason.KILLED_BY_SIGNAL: ReasonClass.FAILED,
    Reason.OUT_OF_MEMORY: ReasonClass.FAILED,
    Reason.TIME_LIMIT: ReasonClass.FAILED,
    Reason.STALLED: ReasonClass.FAILED,
    Reason.SETUP_FAILED: ReasonClass.FAILED,
    Reason.DATASET_MISSING: ReasonClass.FAILED,
    Reason.CHECKPOINT_CORRUPT: ReasonClass.FAILED,
}

UNSTARTED_BEFORE_QUARANTINE = 3
"""Unstarted executions in a row that set a worker aside."""
UNSTARTED_BEFORE_GIVING_UP = 5
"""Unstarted executions in a row that fail a job with `never_started`."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One row of the table: what a command does to a job and to its current execution.

    An edge without `sources` makes the job. An edge without `execution_target` touches no execution. `fenced` edges
    name the process nonce and take effect only while it is the running execution's; `emits` is the event that tells
    of the edge itself (edges to QUEUED add `requeued`, ends add `failed`, `succeeded` or `cancelled`).
    """

    command: Command
    sources: frozenset[JobState]
    target: JobState
    by: frozenset[Actor]
    emits: EventKind
    execution_target: ExecutionState | None = None
    fenced: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.command} → {self.target}"


def _edge(
    command: Command,
    sources: frozenset[JobState] | JobState | None,
    target: JobState,
    by: Actor | frozenset[Actor],
    emits: EventKind,
    execution: ExecutionState | None = None,
    *,
    fenced: bool = False,
    note: str = "",
) -> Edge:
    if sources is None:
        sources = frozenset()
    return Edge(
        command=command,
        sources=frozenset({sources}) if isinstance(sources, JobState) else sources,
        target=target,
        by=frozenset({by}) if isinstance(by, Actor) else by,
        emits=emits,
        execution_target=execution,
        fenced=fenced,
        note=note,
    )


_J, _E, _K, _C, _A = JobState, ExecutionState, EventKind, Command, Actor
_PEOPLE = frozenset({_A.USER, _A.OPERATOR})

EDGES: tuple[Edge, ...] = (
    _edge(_C.SUBMIT, None, _J.QUEUED, _A.USER, _K.SUBMITTED),
    _edge(_C.SUBMIT, None, _J.AWAITING_DATASET, _A.USER, _K.SUBMITTED, note="the dataset is still to be uploaded"),
    _edge(_C.ATTACH_DATASET, _J.AWAITING_DATASET, _J.QUEUED, _A.USER, _K.DATASET_UPLOADED, note="checksum recorded"),
    _edge(_C.EXPIRE_DATASET, _J.AWAITING_DATASET, _J.FAILED, _A.REAPER, _K.DATASET_EXPIRED,
          note="the upload time since the last received byte is over"),
    _edge(_C.GIVE_UP, _J.ASSIGNED, _J.FAILED, frozenset({_A.WORKER, _A.REAPER}), _K.RELEASED, _E.RELEASED,
          note="five unstarted executions on one job, by silence or by crashes"),
    _edge(_C.EXPIRE_QUEUE, _J.QUEUED, _J.FAILED, _A.REAPER, _K.QUEUE_EXPIRED,
          note="only with queue_timeout_seconds, counted from entering the queue"),
    _edge(_C.ASSIGN, _J.QUEUED, _J.ASSIGNED, _A.DISPATCHER, _K.ASSIGNED, _E.ASSIGNED,
          note="claims job and worker in one transaction"),
    _edge(_C.ASSIGN, _J.QUEUED, _J.PENDING_REVIEW, _A.DISPATCHER, _K.ASSIGNED, _E.PENDING_REVIEW,
          note="the worker requires review"),
    _edge(_C.APPROVE, _J.PENDING_REVIEW, _J.ASSIGNED, _A.OPERATOR, _K.APPROVED, _E.ASSIGNED),
    _edge(_C.REJECT, _J.PENDING_REVIEW, _J.QUEUED, _A.OPERATOR, _K.REJECTED, _E.REJECTED,
          note="the worker is excluded for this job until an operator clears it"),
    _edge(_C.EXPIRE_REVIEW, _J.PENDING_REVIEW, _J.QUEUED, _A.REAPER, _K.REVIEW_EXPIRED, _E.REJECTED,
          note="excludes the worker for ten minutes"),
    _edge(_C.START, _J.ASSIGNED, _J.RUNNING, _A.WORKER, _K.STARTED, _E.RUNNING, fenced=True),
    _edge(_C.SUCCEED, _J.RUNNING, _J.SUCCEEDED, _A.WORKER, _K.SUCCEEDED, _E.SUCCEEDED, fenced=True,
          note="exit 0 after a stop signal was sent is the stop, not success"),
    _edge(_C.FAIL, _J.RUNNING, _J.FAILED, frozenset({_A.WORKER, _A.REAPER}), _K.FAILED, _E.FAILED, fenced=True,
          note="by the reaper only past the grace of a stop"),
    _edge(_C.FAIL, _J.RUNNING, _J.QUEUED, frozenset({_A.WORKER, _A.REAPER}), _K.EXECUTION_FAILED, _E.FAILED,
          fenced=True, note="where the retry policy says so"),
    _edge(_C.CANCEL, frozenset({_J.AWAITING_DATASET, _J.QUEUED}), _J.CANCELLED, _PEOPLE, _K.CANCELLED),
    _edge(_C.CANCEL, frozenset({_J.ASSIGNED, _J.PENDING_REVIEW}), _J.CANCELLED, _PEOPLE, _K.CANCELLED, _E.CANCELLED),
    _edge(_C.CANCEL, _J.RUNNING, _J.RUNNING, _PEOPLE, _K.CANCEL_REQUESTED,
          note="sets cancel_requested_at: a flag, not a state"),
    _edge(_C.STOP, _J.RUNNING, _J.CANCELLED, frozenset({_A.WORKER, _A.REAPER}), _K.CANCELLED, _E.CANCELLED,
          fenced=True, note="by the reaper when the worker is silent or past grace and publish time"),
    _edge(_C.RELEASE, HELD, _J.QUEUED, frozenset({_A.WORKER, _A.REAPER}), _K.RELEASED, _E.RELEASED, fenced=True,
          note="charges no attempt"),
    _edge(_C.LOSE, HELD, _J.QUEUED, frozenset({_A.WORKER, _A.REAPER}), _K.LEASE_EXPIRED, _E.LOST, fenced=True,
          note="not charged before start; worker_crashed where the parent saw it"),
    _edge(_C.LOSE, HELD, _J.FAILED, frozenset({_A.WORKER, _A.REAPER}), _K.LEASE_EXPIRED, _E.LOST, fenced=True,
          note="when attempts are spent"),
    _edge(_C.REQUEUE, FINAL, _J.QUEUED, _PEOPLE, _K.REQUEUED, note="fresh attempt budget and a new place"),
    _edge(_C.REQUEUE, FINAL, _J.AWAITING_DATASET, _PEOPLE, _K.REQUEUED, note="its dataset never came"),
)  # fmt: skip


def edges(command: Command, source: JobState | None) -> tuple[Edge, ...]:
    """Every edge that `command` may take from `source` (None: no job yet); empty where it is refused."""
    return tuple(
        edge
        for edge in EDGES
        if edge.command is command and (source in edge.sources if source is not None else not edge.sources)
    )


def edge(command: Command, source: JobState | None, target: JobState) -> Edge:
    """The edge of `command` from `source` to `target`.

    Any edge to QUEUED may end in CANCELLED instead, when the job's owner asked for that meanwhile: such an edge is
    found by its command and CANCELLED, and keeps its execution's end. Raises LookupError where the table has none.
    """
    candidates = edges(command, source)
    for candidate in candidates:
        if candidate.target is target:
            return candidate
    if target is JobState.CANCELLED:
        for candidate in candidates:
            if candidate.target is JobState.QUEUED:
                return _cancelled_instead(candidate)
    raise LookupError(f"no edge {command} from {source} to {target}")


def _cancelled_instead(edge: Edge) -> Edge:
    return Edge(
        command=edge.command,
        sources=edge.sources,
        target=JobState.CANCELLED,
        by=edge.by,
        emits=edge.emits,
        execution_target=edge.execution_target,
        fenced=edge.fenced,
        note="a cancel was requested meanwhile",
    )
