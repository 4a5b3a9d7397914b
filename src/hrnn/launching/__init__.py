"""Many resumable runs: what is missing of them is trained by an engine, processes on this machine by default."""

from hrnn.errors import require_extra

require_extra("cli", "hrnn.launching")
