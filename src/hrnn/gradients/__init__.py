"""How the gradient of a window is computed: true or restricted, one signature. The README here derives it."""

from hrnn.gradients.base import Gradient
from hrnn.gradients.restricted import Restricted
from hrnn.gradients.synthetic import Synthetic
from hrnn.gradients.true_gradients import Checkpointed, Full, Truncated
from hrnn.gradients.updates import Updates
from hrnn.gradients.window import Chunk, Differentiated, Result

__all__ = [
    "Checkpointed",
    "Chunk",
    "Differentiated",
    "Full",
    "Gradient",
    "Restricted",
    "Result",
    "Synthetic",
    "Truncated",
    "Updates",
]
