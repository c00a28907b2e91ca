"""Numbers that scripts reported."""

from django.db import models


class MetricPoint(models.Model):
    """One value of one series of an execution."""

    execution = models.ForeignKey("jobs.Execution", models.CASCADE, related_name="metric_points", db_index=False)
    key = models.CharField(max_length=100)
    step = models.BigIntegerField()
    value = models.FloatField()
    at = models.DateTimeField()

    class Meta:
        ordering = ("execution_id", "key", "step")
        indexes = (models.Index(fields=("execution", "key", "step"), name="metric_series"),)

    def __str__(self) -> str:
        return f"{self.key}={self.value} at {self.step}"
