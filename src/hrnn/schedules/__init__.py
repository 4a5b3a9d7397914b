"""Two schedules turn steps into moments: all rows in phase, in pieces between boundaries; or row by row, step by step.

Both take up where a `Clock` is and know, after their moments, the clock then. Shapes: n steps, B rows; "levels" counts the
levels below the top.
"""

from hrnn.schedules.in_phase import InPhase
from hrnn.schedules.row_by_row import Behind, LevelSteps, RowByRow

__all__ = ["Behind", "InPhase", "LevelSteps", "RowByRow"]
