"""I/O errors of the programs: the root of the exceptions that only `__main__` or `cli` catches."""


class Failure(Exception):  # noqa: N818 - a bug is an error too; this is none
    """A disk, kernel, kubelet or network refused or failed; the message is one sentence for people."""

    def __reduce__(self) -> tuple[object, ...]:
        """Have it cross to another process with all that it tells, whatever it was made of."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class ConfigError(Failure):
    """A config file is missing, or the program cannot read it."""
