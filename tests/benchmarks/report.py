"""What a benchmark found."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured value beside its reference of the same run."""

    name: str
    value: float
    reference: float | None = None
    against: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.reference else self.value / self.reference
