"""Models that leave the lab: one streaming step, or a window, for programs that know nothing of hrnn.

trained = hrnn.load("runs/x")
hrnn.export.to_onnx(trained.network.levels, "step.onnx", head=trained.network.head)
"""

from hrnn.export.files import to_onnx, to_torch_export
from hrnn.export.step import Step
from hrnn.export.window import Window

__all__ = ["Step", "Window", "to_onnx", "to_torch_export"]
