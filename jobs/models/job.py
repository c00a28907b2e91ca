"""What a user asked for."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.choices import enum_field, only, values
from jobs.states import FINAL, HELD, JobState, Reason, ReasonClass


class Priority(models.IntegerChoices):
    """Order of dispatch before anything else: higher first."""

    LOW = -1, "low"
    NORMAL = 0, "normal"
    HIGH = 1, "high"


def default_retry_on() -> list[str]:
    return [ReasonClass.LOST.value]


class Job(models.Model):
    """A request to train, and where it stands. State columns are written by `jobs.transition` alone."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="jobs", db_index=False)
    name = models.CharField(max_length=200)
    labels = models.JSONField(default=dict, blank=True)
    priority = models.SmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)

    gpus = models.PositiveIntegerField(default=0)
    gpu_memory_mb = models.PositiveIntegerField(default=0, help_text="Per card.")
    ram_mb = models.PositiveIntegerField(default=0)
    disk_mb = models.PositiveIntegerField(default=0)
    worker_labels = models.JSONField(default=dict, blank=True, help_text="Labels a worker must carry.")

    max_attempts = models.PositiveSmallIntegerField(default=3)
    retry_on = ArrayField(models.CharField(max_length=16), default=default_retry_on)
    time_limit_seconds = models.FloatField(null=True, blank=True)
    queue_timeout_seconds = models.FloatField(null=True, blank=True)
    stall_timeout_seconds = models.FloatField(null=True, blank=True)
    checkpoint_seconds = models.FloatField(null=True, blank=True)
    dedupe_key = models.CharField(max_length=200, blank=True, default="")
    dataset = models.ForeignKey("jobs.Dataset", models.PROTECT, null=True, blank=True, related_name="jobs")
    dataset_ref = models.CharField(max_length=200, blank=True, default="")
    dataset_deadline = models.DateTimeField(null=True, blank=True)

    state = enum_field(JobState)
    current_execution = models.OneToOneField(
        "jobs.Execution", models.PROTECT, null=True, blank=True, related_name="current_of"
    )
    attempt = models.PositiveIntegerField(default=0, help_text="Number of the latest execution.")
    attempts_used = models.PositiveIntegerField(default=0, help_text="Charged attempts of the present budget.")
    unstarted_in_row = models.PositiveSmallIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    queued_at = models.DateTimeField(null=True, blank=True, help_text="Its place; kept over automatic requeues.")
    not_before = models.DateTimeField(null=True, blank=True, help_text="End of the backoff.")
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    reason = enum_field(Reason, blank=True, default="")
    message = models.TextField(blank=True, default="")
    last_seq = models.PositiveIntegerField(default=0, help_text="Number of its latest event.")

    last_checkpoint_n = models.PositiveIntegerField(default=0)
    latest_checkpoint = models.ForeignKey(
        "jobs.Checkpoint", models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    resume_checkpoint = models.ForeignKey(
        "jobs.Checkpoint", models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    """What the next execution restores: follows latest_checkpoint, unless a requeue named another one or none."""
    forked_from = models.ForeignKey(
        "jobs.Checkpoint", models.SET_NULL, null=True, blank=True, related_name="forks", db_index=False
    )
    """Another job's checkpoint that this one began from. While it may go on from there, that checkpoint is kept."""
    swept_at = models.DateTimeField(null=True, blank=True, help_text="When its storage was tidied after its end.")

    class Meta:
        ordering = ("-id",)
        constraints = (
            only("job_state_known", "state", JobState),
            only("job_reason_known", "reason", Reason, blank=True),
            models.CheckConstraint(
                name="job_finished_iff_final",
                condition=Q(state__in=values(FINAL), finished_at__isnull=False)
                | (~Q(state__in=values(FINAL)) & Q(finished_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="job_current_iff_held",
                condition=Q(state__in=values(HELD), current_execution__isnull=False)
                | (~Q(state__in=values(HELD)) & Q(current_execution__isnull=True)),
            ),
            models.CheckConstraint(
                name="job_queued_has_place", condition=~Q(state=JobState.QUEUED.value) | Q(queued_at__isnull=False)
            ),
            models.UniqueConstraint(
                name="job_dedupe_unfinished",
                fields=("owner", "dedupe_key"),
                condition=~Q(dedupe_key="") & ~Q(state__in=values(FINAL)),
            ),
        )
        indexes = (
            models.Index(fields=("owner", "-id"), name="job_owner_latest"),
            models.Index(fields=("state", "-id"), name="job_state_latest"),
            models.Index(fields=("owner", "state", "-id"), name="job_owner_state_latest"),
            models.Index(
                fields=("-priority", "queued_at", "id"),
                name="job_queue_order",
                condition=Q(state=JobState.QUEUED.value),
            ),
            models.Index(
                fields=("queued_at",),
                name="job_queue_timeout",
                condition=Q(state=JobState.QUEUED.value, queue_timeout_seconds__isnull=False),
            ),
            models.Index(fields=("forked_from",), name="job_forks", condition=Q(forked_from__isnull=False)),
            models.Index(
                fields=("finished_at",),
                name="job_unswept",
                condition=Q(finished_at__isnull=False, swept_at__isnull=True),
            ),
            models.Index(
                fields=("dataset_deadline",),
                name="job_dataset_deadline",
                condition=Q(state=JobState.AWAITING_DATASET.value),
            ),
        )

    def __str__(self) -> str:
        return f"{self.pk} {self.name}"


class JobSource(models.Model):
    """What a job runs; apart from the job, so that lists never drag scripts along."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, related_name="source")
    script = models.TextField()
    args = models.JSONField(default=list, blank=True)
    env = models.JSONField(default=dict, blank=True)
    """May hold secrets: handed to the script, never shown again."""
    requirements = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"source of {self.job_id}"


class WorkerExclusion(models.Model):
    """A worker that may not run a job: for good (no `until`), or for a while."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="exclusions")
    worker = models.ForeignKey("jobs.Worker", models.CASCADE, related_name="exclusions")
    until = models.DateTimeField(null=True, blank=True)
    reason = enum_field(Reason)

    class Meta:
        constraints = (models.UniqueConstraint(name="exclusion_unique", fields=("job", "worker")),)

    def __str__(self) -> str:
        return f"{self.worker_id} may not run {self.job_id}"
