"""Datasets as people see them. Shared ones are for everybody with a role; a job's own goes with its job."""

from dataclasses import dataclass
from datetime import datetime

from jobs.errors import NotFound
from jobs.models import Dataset
from jobs.selectors import pages
from jobs.selectors.pages import Page


@dataclass(frozen=True, kw_only=True)
class DatasetView:
    """A dataset, for the API and the pages; `name` is null for a job's own, `size` in bytes."""

    name: str | None
    filename: str
    size: int
    sha256: str
    created_at: datetime
    owner: str


def page(limit: int, cursor: str | None = None) -> Page[DatasetView]:
    """The shared datasets by name."""
    found = Dataset.objects.filter(name__isnull=False).select_related("owner").order_by("name")
    if after := pages.decode(cursor, str):
        found = found.filter(name__gt=after[0])
    return pages.cut(found[: limit + 1], limit, key=lambda dataset: [str(dataset.name)]).map(view)


def get(name: str) -> DatasetView:
    """The shared dataset of that name; raises NotFound."""
    dataset = Dataset.objects.filter(name=name).select_related("owner").first() if "\0" not in name else None
    if dataset is None:
        raise NotFound("There is no dataset of that name.")
    return view(dataset)


def names() -> list[str]:
    """Of all shared datasets, for a choice."""
    found = Dataset.objects.filter(name__isnull=False).order_by("name")
    return [name for name in found.values_list("name", flat=True)[:1000] if name]


def view(dataset: Dataset) -> DatasetView:
    """What people see of a dataset."""
    return DatasetView(
        name=dataset.name,
        filename=dataset.filename,
        size=dataset.size,
        sha256=dataset.sha256,
        created_at=dataset.created_at,
        owner=dataset.owner.get_username(),
    )
