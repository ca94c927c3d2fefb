"""A program of the cluster: a process with a name and a log, in the cluster's cgroup."""

import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.cluster.local import cgroups, instances, programs, waiting

_END_S = 120
_JOIN = 'echo $$ > "$0" && exec "$@"'
"""A shell that enters the cgroup before it runs the program, so that no child is outside."""


class Program:
    """A running program. As a context it starts at the beginning and is killed at the end."""

    def __init__(self, instance: instances.Instance, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.command = tuple(command)
        self._instance = instance
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill the process: the state is thrown away, and a polite end takes the API server seconds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=_END_S)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def start(self) -> None:
        """Start the process, with the same words each time. The log goes on."""
        entrance = str(cgroups.entrance(self._instance.cgroup))
        with self._instance.log(self.name).open("ab") as log:
            self._process = subprocess.Popen(
                ("sh", "-c", _JOIN, entrance, *self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self._instance),
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the tests; they end the programs in order.
            )

    def stop(self) -> None:
        """Ask the process to end (SIGTERM) and wait for it."""
        assert self._process is not None, f"{self.name} was never started"
        self._process.terminate()
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired as error:
            raise waiting.TimedOut(f"{self.name} goes on {_END_S} s after SIGTERM.\n{self.log_tail()}") from error

    def ended(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def log_tail(self, lines: int = 15) -> str:
        text = self._instance.log(self.name).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def environment(instance: instances.Instance) -> dict[str, str]:
    """Return the environment of the programs: no proxies, no user's configuration, and the built programs first."""
    return {
        "HOME": str(instance.state / "home"),
        "KUBECONFIG": str(instance.kubeconfig),
        "LANG": "C.UTF-8",
        "PATH": programs.search_path(),
    }
