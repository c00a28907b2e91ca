"""What always holds between any two transactions: the design's promises, asked of the whole database."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction

from jobs.models import Event, Execution, Heartbeat, Job, Worker
from jobs.states import ACTIVE, FINAL, HELD, EventKind, ExecutionState, JobState

_ACTIVE = {state.value for state in ACTIVE}
_ENDS = {
    EventKind.SUCCEEDED: JobState.SUCCEEDED,
    EventKind.FAILED: JobState.FAILED,
    EventKind.CANCELLED: JobState.CANCELLED,
}
_AFTER_THE_END = {EventKind.RESULT_REFUSED, EventKind.RESURFACED}


class Broken(AssertionError):
    """Some promise does not hold; the message lists every breach."""


def check(*, forgotten: frozenset[int] = frozenset()) -> None:
    """Raise Broken unless every promise holds; `forgotten` are executions whose worker an operator has written off."""
    with transaction.atomic():
        world = World()
    broken = [*world.owners(forgotten), *world.leases(), *world.jobs(), *world.executions(), *world.timelines()]
    if broken:
        raise Broken("\n".join(broken))


class World:
    """The tables as they are at one moment."""

    def __init__(self) -> None:
        self.all_jobs = {row["id"]: row for row in _rows(Job.objects)}
        self.all_executions = {row["id"]: row for row in _rows(Execution.objects.order_by("job_id", "number"))}
        self.all_leases = {row["execution_id"]: row for row in _rows(Heartbeat.objects)}
        self.all_workers = {row["id"]: row for row in _rows(Worker.objects)}
        self.events = _by_job(_rows(Event.objects.order_by("job_id", "seq")))
        self.of_job = _by_job(self.all_executions.values())
        self.active = {key: row for key, row in self.all_executions.items() if row["state"] in _ACTIVE}

    def owners(self, forgotten: frozenset[int]) -> Iterator[str]:
        """Promise 1: one active execution per job and per worker, and the worker is taken by it."""
        for column in ("job_id", "worker_id"):
            for key, count in Counter(row[column] for row in self.active.values()).items():
                if key is not None and count > 1:
                    yield f"{count} active executions have {column} {key}"
        for key, row in self.active.items():
            worker = self.all_workers.get(row["worker_id"])
            if key not in forgotten and (worker is None or worker["occupied_by_id"] != key):
                yield f"execution {_label(row)} is active, but its worker is not occupied by it"
            if self.all_jobs[row["job_id"]]["current_execution_id"] != key:
                yield f"execution {_label(row)} is active, but not its job's current one"
        for worker in self.all_workers.values():
            occupant = self.all_executions.get(worker["occupied_by_id"])
            if occupant and occupant["worker_id"] != worker["id"]:
                yield f"worker {worker['name']} is occupied by another worker's execution {_label(occupant)}"

    def leases(self) -> Iterator[str]:
        """A heartbeat row exists exactly for active executions, with the nonce that `start` stored."""
        for key in self.active.keys() - self.all_leases.keys():
            yield f"execution {_label(self.active[key])} is active without a lease"
        for key in self.all_leases.keys() - self.active.keys():
            yield f"execution {_label(self.all_executions[key])} has ended and has a lease"
        for key in self.all_leases.keys() & self.active.keys():
            row, lease = self.active[key], self.all_leases[key]
            if row["nonce"] != lease["nonce"]:
                yield f"execution {_label(row)} and its lease name different processes"
            if (row["state"] == ExecutionState.RUNNING) != (lease["nonce"] is not None):
                yield f"the lease of {_label(row)} in state {row['state']} has nonce {lease['nonce']}"

    def jobs(self) -> Iterator[str]:
        for key, job in self.all_jobs.items():
            state, mine = JobState(job["state"]), self.of_job[key]
            current = self.all_executions.get(job["current_execution_id"])
            if (state in HELD) != (current is not None):
                yield f"job {key} is {state} with current execution {job['current_execution_id']}"
            if current and (current["job_id"] != key or current["state"] != state):
                yield f"job {key} is {state}, its current execution {_label(current)} {current['state']}"
            if (state in FINAL) != (job["finished_at"] is not None):
                yield f"job {key} is {state} with finished_at {job['finished_at']}"
            if state is JobState.QUEUED and job["queued_at"] is None:
                yield f"job {key} is queued without a place"
            if [row["number"] for row in mine] != list(range(1, job["attempt"] + 1)):
                yield f"job {key} has attempt {job['attempt']} and executions {[row['number'] for row in mine]}"
            if job["cancel_requested_at"] and state not in FINAL | {JobState.RUNNING}:
                yield f"job {key} was to be cancelled and is {state}"
            if state in FINAL | HELD and job["not_before"]:
                yield f"job {key} is {state} and waits for the end of a backoff"
            if (state in {JobState.FAILED, JobState.CANCELLED}) != bool(job["reason"]):
                yield f"job {key} is {state} for reason {job['reason']!r}"
            yield from self._budget(key, job)

    def _budget(self, key: int, job: dict[str, Any]) -> Iterator[str]:
        """Promise 9: what is charged since the last manual requeue is counted, and bounded."""
        before = 0
        assigned = 0
        for event in self.events[key]:
            assigned += event["kind"] == EventKind.ASSIGNED
            if event["kind"] == EventKind.REQUEUED and event["actor"].startswith("user:"):
                before = assigned
        charged = sum(row["charged"] for row in self.of_job[key] if row["number"] > before)
        if charged != job["attempts_used"]:
            yield f"job {key} has {charged} charged attempts in this budget and counts {job['attempts_used']}"
        if job["attempts_used"] > job["max_attempts"]:
            yield f"job {key} used {job['attempts_used']} of {job['max_attempts']} attempts"

    def executions(self) -> Iterator[str]:
        for row in self.all_executions.values():
            ended = row["state"] not in _ACTIVE
            if ended != (row["finished_at"] is not None):
                yield f"execution {_label(row)} is {row['state']} with finished_at {row['finished_at']}"
            if row["charged"] and (row["started_at"] is None or not ended):
                yield f"execution {_label(row)} is charged in state {row['state']}, started at {row['started_at']}"
            if (row["started_at"] is None) != (row["nonce"] is None):
                yield f"execution {_label(row)} was started at {row['started_at']} by {row['nonce']}"
            if ended and (row["state"] == ExecutionState.SUCCEEDED) == bool(row["reason"]):
                yield f"execution {_label(row)} is {row['state']} for reason {row['reason']!r}"

    def timelines(self) -> Iterator[str]:
        """Promise 5, and that a timeline tells what the rows say."""
        for key, job in self.all_jobs.items():
            events = self.events[key]
            if [event["seq"] for event in events] != list(range(1, job["last_seq"] + 1)):
                yield f"job {key} counts {job['last_seq']} events and has {[event['seq'] for event in events]}"
            if [event["id"] for event in events] != sorted(event["id"] for event in events):
                yield f"the events of job {key} were not written in the order of their numbers"
            yield from self._told(key, job, events)
        for key, row in self.all_executions.items():
            kinds = Counter(event["kind"] for event in self.events[row["job_id"]] if event["execution_id"] == key)
            for kind, column in (
                (EventKind.ASSIGNED, "assigned_at"),
                (EventKind.STARTED, "started_at"),
                (EventKind.RESULT_REFUSED, "result_refused_at"),
                (EventKind.RESURFACED, "resurfaced_at"),
            ):
                if kinds[kind] != (row[column] is not None):
                    yield f"execution {_label(row)} has {kinds[kind]} events {kind} and {column} {row[column]}"

    def _told(self, key: int, job: dict[str, Any], events: list[dict[str, Any]]) -> Iterator[str]:
        story = [EventKind(event["kind"]) for event in events]
        ends = [_ENDS[kind] for kind in story if kind in _ENDS]
        rounds = 1 + sum(_by_hand(event) for event in events)
        final = JobState(job["state"]) in FINAL
        if len(ends) != rounds - (not final) or (final and ends[-1] != job["state"]):
            yield f"job {key} is {job['state']} in round {rounds}, and its timeline tells of the ends {ends}"
        if final and not set(story[max(i for i, kind in enumerate(story) if kind in _ENDS) + 1 :]) <= _AFTER_THE_END:
            yield f"job {key} has ended, and its timeline goes on: {story}"
        for index, event in enumerate(events):
            if event["kind"] == EventKind.REQUEUED and not _by_hand(event):
                cause = events[index - 1] if index else None
                if cause is None or cause["execution_id"] != event["execution_id"] or cause["kind"] == event["kind"]:
                    yield f"job {key} was requeued in event {event['seq']} for no cause"
            if event["kind"] == EventKind.RETRY_SCHEDULED and story[index - 1] is not EventKind.REQUEUED:
                yield f"job {key} has a retry scheduled in event {event['seq']} without a requeue"


def _rows(queryset: Any) -> list[dict[str, Any]]:
    return list(queryset.values())


def _by_job(rows: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["job_id"]].append(row)
    return found


def _by_hand(event: dict[str, Any]) -> bool:
    return bool(event["kind"] == EventKind.REQUEUED and event["actor"].startswith("user:"))


def _label(row: dict[str, Any]) -> str:
    return f"{row['job_id']}.{row['number']}"
