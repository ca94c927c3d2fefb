"""The pulse of a program: it beats while the program's work advances, and whoever must not outlive that looks at it."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LIMIT_S = 180.0
"""Without a beat for so long, the work hangs: no call that it makes without a limit of its own may take longer."""

ENDING_S = 30.0
"""The same once the program is to end, which is less than the kubelet's patience."""

_LOOK_S = 5.0


@dataclass
class _Pulse:
    beaten_s: float = field(default_factory=time.monotonic)
    where: str = ""
    is_watched: bool = False
    told: int | None = None
    """The descriptor that hears of the beats of a process of `killable`."""


_own = _Pulse()


def beat(where: str = "") -> None:
    """Say that the work advances, and what it comes to now, if that may hang."""
    _own.beaten_s, _own.where = time.monotonic(), where
    if _own.told is not None:
        os.write(_own.told, f"{where}\n".encode(errors="replace"))


def tell(descriptor: int) -> None:
    """Have the beats of this process heard at the other end of a pipe, a line each."""
    _own.told = descriptor


def hangs(limit_s: float = LIMIT_S) -> str:
    """Return a sentence if the work is `watched`, and the last beat is as old as this; else nothing."""
    age_s = time.monotonic() - _own.beaten_s
    return f"{place(_own.where)} for {age_s:.0f} seconds." if _own.is_watched and age_s >= limit_s else ""


def place(where: str) -> str:
    """Return the beginning of a sentence about what hangs at a path of the host."""
    return f"'{where}' on the host does not answer" if where else "The program does not advance"


def wait(stop: threading.Event, seconds: float) -> bool:
    """Wait as `stop.wait` does, beating."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > _LOOK_S and not stop.wait(_LOOK_S):
        beat()
    beat()
    return stop.wait(max(0, left_s)) if left_s <= _LOOK_S else True


@contextlib.contextmanager
def watched(stop: threading.Event, end: Callable[[str], object]) -> Iterator[None]:
    """Return a context for work that beats; once it hangs, `end` is called with a sentence, in a thread of its own.

    That one has to end the process: the thread that hangs may do so for ever.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            if sentence := hangs(ENDING_S if stop.is_set() else LIMIT_S):
                end(sentence)

    beat()
    _own.is_watched = True
    threading.Thread(target=watch, name="pulse", daemon=True).start()
    try:
        yield
    finally:
        _own.is_watched = False
        over.set()
