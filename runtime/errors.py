"""I/O errors of the programs: the root of the exceptions that only `__main__` or `cli` catches."""


class Failure(Exception):  # noqa: N818 - a bug is an error too; this is none
    """A disk, kernel, kubelet or network refused or failed; the message is one sentence for people."""


class ConfigError(Failure):
    """A config file is missing, or the program cannot read it."""
