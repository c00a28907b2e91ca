"""How much training an attempt has to do again."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.models import Execution
from jobs.states import Phase

_TRAINED = [Phase.TRAINING.value, Phase.PUBLISHING.value]


def seconds(execution_id: int) -> float | None:
    """How long the attempt before it trained after the checkpoint that this one resumed from.

    None for the first attempt, and for one that does not exist any more.

    By the database's clock. An earlier attempt that never came to its script lost nothing. Without a checkpoint to
    resume from, all that the attempt before it trained is lost.
    """
    execution = Execution.objects.select_related("resumed_from").filter(pk=execution_id).first()
    if execution is None or execution.number == 1:
        return None
    earlier = Execution.objects.filter(job=execution.job_id, number__lt=execution.number, phase__in=_TRAINED)
    previous = earlier.order_by("-number").first()
    if previous is None:
        return 0.0
    saved_at = execution.resumed_from.created_at if execution.resumed_from else None
    return _trained(previous).after(saved_at)


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """The time in which an attempt trained."""

    start: datetime
    end: datetime

    def after(self, moment: datetime | None) -> float:
        start = self.start if moment is None else max(self.start, moment)
        return max((self.end - start).total_seconds(), 0.0)


def _trained(execution: Execution) -> _Stretch:
    since, end = execution.phase_since, execution.finished_at
    assert since is not None, "a phase has a beginning"
    if execution.phase == Phase.PUBLISHING.value:
        return _Stretch(start=since - timedelta(seconds=execution.training_seconds), end=since)
    # It ended in silence: what it did between its last beat and being found out, nobody knows.
    silent = timedelta(seconds=execution.detect_seconds or 0.0)
    return _Stretch(start=since, end=(end or since) - silent)
