"""What the address of the job list asks for."""

from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.http import QueryDict

from jobs.selectors.filters import Filter
from jobs.states import WAITING, JobState

GROUPS: dict[str, tuple[str, frozenset[JobState]]] = {
    "waiting": ("Waiting", WAITING),
    "running": ("Running", frozenset({JobState.RUNNING})),
    "succeeded": ("Succeeded", frozenset({JobState.SUCCEEDED})),
    "failed": ("Failed", frozenset({JobState.FAILED})),
    "cancelled": ("Cancelled", frozenset({JobState.CANCELLED})),
}
"""The filters above the list, by the word that the address carries; a state's own name works as well."""
LONGEST_SEARCH = 200


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which jobs: a group or state, words, a label, an owner. What means nothing is left out."""

    state: str = ""
    q: str = ""
    label: str = ""
    owner: str = ""
    states: frozenset[JobState] = field(default_factory=frozenset)

    @classmethod
    def of(cls, query: QueryDict) -> "Asked":
        state, states = _states(query.get("state", ""))
        q, label, owner = (_words(query.get(name, "")) for name in ("q", "label", "owner"))
        return cls(state=state, states=states, q=q, label=label, owner=owner)

    @property
    def filter(self) -> Filter:
        return Filter(
            states=sorted(self.states),
            q=self.q,
            labels=[self.label] if self.label else [],
            owner=self.owner or None,
        )

    def address(self, **changes: str) -> str:
        """These wishes as a query string, with `changes`; empty ones are left out."""
        wishes = {"state": self.state, "q": self.q, "label": self.label, "owner": self.owner} | changes
        told = urlencode({name: value for name, value in wishes.items() if value})
        return f"?{told}" if told else ""

    @property
    def narrows(self) -> bool:
        return not self.filter.is_empty


def _states(word: str) -> tuple[str, frozenset[JobState]]:
    if word.lower() in GROUPS:
        return word.lower(), GROUPS[word.lower()][1]
    if word.upper() in JobState.__members__:
        return word.upper(), frozenset({JobState(word.upper())})
    return "", frozenset()


def _words(text: str) -> str:
    # PostgreSQL keeps no NUL in a text, so nothing could match one.
    return text.replace("\0", "").strip()[:LONGEST_SEARCH]
