"""What goes wrong outside the documents: the one small tree of exceptions that only the shell catches."""


class WorldError(Exception):
    """Disk, process or network did not do what was asked: a sentence, and an action as hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
