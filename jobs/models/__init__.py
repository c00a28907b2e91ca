"""What PostgreSQL holds. Rows carry data and constraints; who may write what is in `transition` and `commands`."""

from jobs.models.checkpoint import Checkpoint
from jobs.models.dataset import Dataset, DatasetUpload
from jobs.models.event import Event
from jobs.models.execution import Execution
from jobs.models.heartbeat import Heartbeat
from jobs.models.idempotency import IdempotencyKey
from jobs.models.installation import Installation, ReaperLease
from jobs.models.job import Job, JobSource, Priority, WorkerExclusion
from jobs.models.log import LogChunk
from jobs.models.metric import MetricPoint
from jobs.models.token import Token
from jobs.models.worker import Worker, WorkerMode

__all__ = [
    "Checkpoint",
    "Dataset",
    "DatasetUpload",
    "Event",
    "Execution",
    "Heartbeat",
    "IdempotencyKey",
    "Installation",
    "Job",
    "JobSource",
    "LogChunk",
    "MetricPoint",
    "Priority",
    "ReaperLease",
    "Token",
    "Worker",
    "WorkerExclusion",
    "WorkerMode",
]
