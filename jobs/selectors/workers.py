"""Workers as people see them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from jobs.errors import NotFound
from jobs.models import Worker, WorkerMode
from jobs.selectors import pages
from jobs.selectors.pages import Page


class WorkerState(StrEnum):
    """What a worker is doing, from what operators allow it and from when it was last heard of."""

    IDLE = "IDLE"
    BUSY = "BUSY"
    DRAINING = "DRAINING"
    DISABLED = "DISABLED"
    QUARANTINED = "QUARANTINED"
    OFFLINE = "OFFLINE"
    """Not heard of for a lease time; whatever else it was, nobody knows now."""


_STATE_OF_MODE = {
    WorkerMode.DRAINING: WorkerState.DRAINING,
    WorkerMode.DISABLED: WorkerState.DISABLED,
    WorkerMode.QUARANTINED: WorkerState.QUARANTINED,
}


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What a worker declared; `gpu_memory_mb` is per card."""

    gpus: int
    gpu_memory_mb: int
    ram_mb: int
    disk_mb: int
    cpus: int
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class WorkerView:
    """A worker, for the API and the pages."""

    name: str
    host: str
    state: WorkerState
    occupied_by: str | None
    capacity: Capacity
    requires_review: bool
    last_seen_at: datetime
    isolation: str
    version: str


def rows() -> QuerySet[Worker]:
    """Every worker by name, with `online` judged by the database's clock and what occupies it."""
    online = ExpressionWrapper(Q(expires_at__gt=Now()), output_field=BooleanField())
    return Worker.objects.select_related("occupied_by").annotate(online=online).order_by("name")


def state_of(worker: Worker) -> WorkerState:
    """The state of a worker that `rows` gave."""
    if not worker.online:  # type: ignore[attr-defined]  # annotated by rows()
        return WorkerState.OFFLINE
    if state := _STATE_OF_MODE.get(WorkerMode(worker.mode)):
        return state
    return WorkerState.BUSY if worker.occupied_by_id else WorkerState.IDLE


def page(limit: int, cursor: str | None = None) -> Page[WorkerView]:
    """Workers by name."""
    found = rows()
    if after := pages.decode(cursor, str):
        found = found.filter(name__gt=after[0])
    return pages.cut(found[: limit + 1], limit, key=lambda worker: [worker.name]).map(view)


def get(name: str) -> WorkerView:
    """The worker of that name; raises NotFound."""
    worker = rows().filter(name=name).first() if "\0" not in name else None
    if worker is None:
        raise NotFound("There is no worker of that name.")
    return view(worker)


def view(worker: Worker) -> WorkerView:
    """What people see of a worker that `rows` gave."""
    return WorkerView(
        name=worker.name,
        host=worker.host,
        state=state_of(worker),
        occupied_by=worker.occupied_by.label if worker.occupied_by else None,
        capacity=Capacity(
            gpus=worker.gpus,
            gpu_memory_mb=worker.gpu_memory_mb,
            ram_mb=worker.ram_mb,
            disk_mb=worker.disk_mb,
            cpus=worker.cpus,
            labels=worker.labels,
        ),
        requires_review=worker.requires_review,
        last_seen_at=worker.last_seen_at,
        isolation=worker.isolation,
        version=worker.version,
    )
