"""What the command line says in one sentence instead of a traceback. Imports nothing."""


class UserError(ValueError):
    """Something that the user can mend."""


class DivergedError(Exception):
    """The loss, or a weight, is no longer a number."""


class LostError(Exception):
    """Another process of the job is gone, or does not answer."""
