"""What a user can meet: each message names the value, the limit and the remedy."""


class SelfsortError(Exception):
    """The parent of every error that selfsort raises on purpose."""


class SelfsortWarning(UserWarning):
    """Something about a fitted model looks wrong; the message says what to do."""


class ConfigError(SelfsortError, ValueError):
    """A setting is unknown, of the wrong type or out of its range."""


class DataError(SelfsortError, ValueError):
    """Images cannot be read or used."""


class TrainingError(SelfsortError, RuntimeError):
    """Training went wrong in a way that nothing useful can come of."""


class TrainingStopped(SelfsortError):  # noqa: N818 - stopping is what was asked for, not a fault
    """Training was asked to stop; the checkpoint, if there is one, can be resumed."""


class ModelFileError(SelfsortError, ValueError):
    """A model, checkpoint or run on disk is missing, damaged or of another version."""


class EditError(SelfsortError, ValueError):
    """An edit of a finished run does not fit its present state."""


def first_line(error: Exception) -> str:
    """What an error of another library says, fit for the middle of a line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
