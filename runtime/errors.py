"""What goes wrong outside a program: the root of the exceptions that only its `__main__` or `cli` catches."""


class Failure(Exception):  # noqa: N818 - a bug is an error too; this is none
    """Disk, kernel, kubelet or network did not do what was asked; the message is one sentence for people."""


class ConfigError(Failure):
    """A config file is missing or is not what the program reads."""
