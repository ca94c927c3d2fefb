"""Stop a program on SIGTERM and SIGINT."""

import asyncio
import os
import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Return an event that SIGTERM (the kubelet) and SIGINT (a person) set; the second signal ends the process at once.

    Both need a handler: the first process of a container has no default dispositions, so the kernel would drop
    them (pid_namespaces(7), "The namespace init process"). For the same reason the second one cannot be left to
    the kernel; the exit code is the shell's for a death by that signal.
    """
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            # sys.exit would wait for tasks and threads, and the sender has waited enough.
            os._exit(128 + number)
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    return stop


def set_on_signals(stop: threading.Event) -> None:
    """Set an event on the first signal and end the process on the second, in a program without asyncio.

    Call it in the main thread. After the event is cleared, the next signal sets it again.

    A thread of its own sets the event. A handler runs in the main thread, between any two of its instructions: inside
    `stop.wait()` it would wait for a lock that this very thread holds, and on the way into that wait it would not run
    before its end.
    """
    heard, told = os.pipe()
    os.set_blocking(told, False)  # As set_wakeup_fd asks; two bytes always fit.
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, _leave_to_listener)
    threading.Thread(target=_listen, args=(heard, stop), name="signals", daemon=True).start()


def _listen(heard: int, stop: threading.Event) -> None:
    while True:
        (number,) = os.read(heard, 1)
        if stop.is_set():
            os._exit(128 + number)
        stop.set()


def _leave_to_listener(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes a signal's number to the wakeup descriptor only if the signal has a handler."""
