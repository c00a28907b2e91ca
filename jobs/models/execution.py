"""One attempt at a job."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.choices import enum_field, only, values
from jobs.states import ACTIVE, ExecutionState, Phase, Reason


class Execution(models.Model):
    """One attempt, written `1042.3`: which worker has it, how far it is, how it ended and what recovery cost."""

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="executions", db_index=False)
    number = models.PositiveIntegerField()
    worker = models.ForeignKey("jobs.Worker", models.SET_NULL, null=True, related_name="executions", db_index=False)
    worker_name = models.CharField(max_length=100)
    state = enum_field(ExecutionState)
    phase = enum_field(Phase, blank=True, default="")
    nonce = models.UUIDField(null=True, blank=True)
    """Stored by `start`: the one process that may write for this execution."""

    assigned_at = models.DateTimeField(db_default=Now())
    approved_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    phase_since = models.DateTimeField(null=True, blank=True)
    training_seconds = models.FloatField(default=0.0, help_text="Time in phase training before the present phase.")
    finished_at = models.DateTimeField(null=True, blank=True)

    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_reason = enum_field(Reason, blank=True, default="")
    reason = enum_field(Reason, blank=True, default="")
    message = models.TextField(blank=True, default="")
    exit_code = models.IntegerField(null=True, blank=True)
    signal = models.PositiveSmallIntegerField(null=True, blank=True)
    charged = models.BooleanField(default=False, help_text="Whether it counts against max_attempts.")
    result_refused_at = models.DateTimeField(null=True, blank=True)
    resurfaced_at = models.DateTimeField(null=True, blank=True)

    step = models.BigIntegerField(null=True, blank=True)
    total = models.BigIntegerField(null=True, blank=True)
    log_bytes = models.BigIntegerField(default=0)
    metrics_bytes = models.BigIntegerField(default=0, help_text="How much of the metrics file is stored.")

    resumed_from = models.ForeignKey(
        "jobs.Checkpoint", models.SET_NULL, null=True, blank=True, related_name="resumed_by"
    )
    lost_work_seconds = models.FloatField(null=True, blank=True)
    detect_seconds = models.FloatField(null=True, blank=True)
    queue_seconds = models.FloatField(null=True, blank=True)
    restore_seconds = models.FloatField(null=True, blank=True)
    first_step_seconds = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ("job_id", "number")
        constraints = (
            models.UniqueConstraint(name="execution_number_unique", fields=("job", "number")),
            models.UniqueConstraint(
                name="execution_one_active_per_job", fields=("job",), condition=Q(state__in=values(ACTIVE))
            ),
            models.UniqueConstraint(
                name="execution_one_active_per_worker", fields=("worker",), condition=Q(state__in=values(ACTIVE))
            ),
            only("execution_state_known", "state", ExecutionState),
            only("execution_phase_known", "phase", Phase, blank=True),
            only("execution_reason_known", "reason", Reason, blank=True),
            only("execution_stop_reason_known", "stop_reason", Reason, blank=True),
            models.CheckConstraint(
                name="execution_finished_iff_ended",
                condition=Q(state__in=values(ACTIVE), finished_at__isnull=True)
                | (~Q(state__in=values(ACTIVE)) & Q(finished_at__isnull=False)),
            ),
            models.CheckConstraint(
                name="execution_running_has_nonce",
                condition=~Q(state=ExecutionState.RUNNING.value) | Q(nonce__isnull=False, started_at__isnull=False),
            ),
        )
        indexes = (models.Index(fields=("worker", "-id"), name="execution_worker_latest"),)

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """How people write it: `1042.3`."""
        return f"{self.job_id}.{self.number}"
