"""Reports: from the journals of runs to tables and pictures."""

from hrnn.errors import require_extra

require_extra("cli", "hrnn.report")
