"""How the pages write states, times, sizes and kinds of events."""

from datetime import datetime, timedelta
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from jobs.states import EventKind

register = template.Library()

_TONES = {
    "AWAITING_DATASET": "waiting",
    "QUEUED": "waiting",
    "ASSIGNED": "waiting",
    "PENDING_REVIEW": "review",
    "RUNNING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "LOST": "lost",
    "CANCELLED": "cancelled",
    "REJECTED": "cancelled",
    "RELEASED": "cancelled",
}
"""How a state looks: the name of a class of colours and of an icon."""

_MARKS: dict[EventKind, tuple[str, str]] = {
    EventKind.SUCCEEDED: ("succeeded", "succeeded"),
    EventKind.FAILED: ("failed", "failed"),
    EventKind.EXECUTION_FAILED: ("failed", "failed"),
    EventKind.ATTEMPTS_EXHAUSTED: ("failed", "failed"),
    EventKind.CHECKPOINT_FAILED: ("failed", "saved"),
    EventKind.CHECKPOINT_REJECTED: ("failed", "saved"),
    EventKind.LEASE_EXPIRED: ("lost", "lost"),
    EventKind.WORKER_CRASHED: ("lost", "lost"),
    EventKind.STALLED: ("lost", "lost"),
    EventKind.TIME_LIMIT_REACHED: ("lost", "waiting"),
    EventKind.RESULT_REFUSED: ("lost", "cancelled"),
    EventKind.RESURFACED: ("lost", "again"),
    EventKind.CANCELLED: ("cancelled", "cancelled"),
    EventKind.CANCEL_REQUESTED: ("cancelled", "cancelled"),
    EventKind.CHECKPOINT_SAVED: ("succeeded", "saved"),
    EventKind.CHECKPOINT_RESTORED: ("running", "saved"),
    EventKind.REQUEUED: ("waiting", "again"),
    EventKind.RETRY_SCHEDULED: ("waiting", "waiting"),
    EventKind.STARTED: ("running", "running"),
    EventKind.REVIEW_REQUESTED: ("review", "review"),
}
_STRONG = frozenset(
    {EventKind.SUCCEEDED, EventKind.FAILED, EventKind.LEASE_EXPIRED, EventKind.WORKER_CRASHED, EventKind.CANCELLED}
)


@register.filter
def tone(state: str) -> str:
    return _TONES.get(state, "cancelled")


@register.filter
def words(name: str) -> str:
    """`PENDING_REVIEW` as people say it: Pending review."""
    return name.replace("_", " ").capitalize()


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>', static("rerail/icons.svg"), name
    )


@register.simple_tag
def state(name: str) -> SafeString:
    """A state's badge: colour, shape and word."""
    look = tone(name)
    return format_html('<span class="state {}">{}{}</span>', look, icon(look), words(name))


@register.simple_tag
def mark(kind: str) -> SafeString:
    """The sign of an event in front of its sentence."""
    look, sign = _MARKS.get(EventKind(kind), ("", "dot"))
    return format_html('<span class="mark {}">{}</span>', f"toned {look}" if look else "", icon(sign))


@register.filter
def event_class(kind: str) -> str:
    """What sets the line of an event apart: strong and in its colour, where it decided something."""
    look, _ = _MARKS.get(EventKind(kind), ("", ""))
    return f"strong {look}" if EventKind(kind) in _STRONG else ""


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """A moment relative to now; the page keeps it true, and tells the exact time on hover in the viewer's zone."""
    return _time(moment, f"{coarse((timezone.now() - moment).total_seconds())} ago", "ago") if moment else "–"


@register.filter
def at(moment: datetime | None) -> SafeString | str:
    """A moment as a time of the day, in UTC until the page puts it into the viewer's zone."""
    return _time(moment, f"{moment:%H:%M:%S}", "at") if moment else "–"


def _time(moment: datetime, told: str, how: str) -> SafeString:
    exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" data-show="{}" title="{}">{}</time>', moment.isoformat(), how, exact, told)


@register.simple_tag
def lasted(begin: datetime | None, end: datetime | None) -> SafeString | str:
    """How long something took; while it has no end, a duration that the page lets run on."""
    if begin is None:
        return "–"
    if end is not None:
        return span((end - begin).total_seconds())
    told = span((timezone.now() - begin).total_seconds())
    return format_html('<time datetime="{}" data-show="since">{}</time>', begin.isoformat(), told)


@register.filter
def span(seconds: float | timedelta | None) -> str:
    """A duration in its two largest units: `3 min 20 s`, `2 h 5 min`, `4 d`."""
    if seconds is None:
        return ""
    whole = max(int(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds), 0)
    for size, unit, smaller, smaller_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {smaller_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def coarse(seconds: float) -> str:
    """A duration in its largest unit alone: `3 min`."""
    return " ".join(span(seconds).split(" ")[:2])


@register.simple_tag(takes_context=True)
def here(context: dict[str, Any], name: str) -> SafeString | str:
    """Marks the link to the page that is open."""
    request = context.get("request")
    match = getattr(request, "resolver_match", None)
    return mark_safe(' aria-current="page"') if match and match.url_name == name else ""
