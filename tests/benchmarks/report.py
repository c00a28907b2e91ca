"""What a benchmark found, as a table for people and as JSON for programs."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured value, beside a reference of the same run where there is one, and what it should not exceed."""

    name: str
    value: float
    reference: float | None = None
    against: str = ""
    limit: float | None = None
    least_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if not self.reference else self.value / self.reference

    @property
    def reached(self) -> bool | None:
        """Whether the figure is as good as it should be; None where nothing is asked of it."""
        if self.limit is not None:
            return self.value <= self.limit
        if self.least_ratio is not None and self.ratio is not None:
            return self.ratio >= self.least_ratio
        return None


def table(figures: Iterable[Figure]) -> Table:
    shown = Table("figure", "measured", "reference", "ratio", "wanted", "reached")
    for figure in figures:
        wanted = (
            f"≤ {figure.limit:g}" if figure.limit else f"ratio ≥ {figure.least_ratio:g}" if figure.least_ratio else ""
        )
        shown.add_row(
            figure.name,
            f"{figure.value:.3f}",
            f"{figure.reference:.3f} ({figure.against})" if figure.reference is not None else "",
            f"{figure.ratio:.2f}" if figure.ratio is not None else "",
            wanted,
            {True: "yes", False: "no", None: ""}[figure.reached],
        )
    return shown


def tell(figures: list[Figure], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(figure) | {"ratio": figure.ratio, "reached": figure.reached} for figure in figures]))
    else:
        Console(width=160).print(table(figures))
