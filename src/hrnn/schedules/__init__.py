"""The schedule of the compiled executor: rows that tick together."""

from hrnn.schedules.in_phase import InPhase

__all__ = ["InPhase"]
