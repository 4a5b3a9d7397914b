"""Reports: from the journals of runs to tables and pictures."""
