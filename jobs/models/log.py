"""What scripts printed."""

from django.db import models


class LogChunk(models.Model):
    """A run of bytes of an execution's output, by its offset; chunks of one execution leave no holes."""

    execution = models.ForeignKey("jobs.Execution", models.CASCADE, related_name="log_chunks", db_index=False)
    offset = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        ordering = ("execution_id", "offset")
        constraints = (models.UniqueConstraint(name="log_chunk_unique", fields=("execution", "offset")),)

    def __str__(self) -> str:
        return f"log of {self.execution_id} from {self.offset}"
