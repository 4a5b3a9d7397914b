"""One module a command: its options as a dataclass, and a main that takes the arguments and returns an exit code."""
