"""The task `series`: sequences of one's own, from hrnn.data to batches, losses, scores and predictions."""

from hrnn.tasks.series.task import Series

__all__ = ["Series"]
