"""What `manage.py check` refuses."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register


@register()
def lease_outlasts_three_beats(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:
    """A lease shorter than three beats expires by a hiccup."""
    timing = settings.RERAIL.timing
    if timing.lease >= 3 * timing.heartbeat:
        return []
    return [
        Error(
            f"RERAIL_LEASE_SECONDS is {timing.lease:g}, less than three times RERAIL_HEARTBEAT_SECONDS "
            f"({timing.heartbeat:g}).",
            hint=f"Set RERAIL_LEASE_SECONDS to at least {3 * timing.heartbeat:g}.",
            id="rerail.E001",
        )
    ]
