"""Get a queue of a device as a workload does, by the ioctls of uacce: `python uacce.py NODE...`.

It prints for each device node an errno, 0 for a queue that started. It is a program of its own, and imports nothing of
the project, because a driver may let it wait for ever.

UACCE_CMD_START_Q: include/uapi/misc/uacce/uacce.h of the Linux kernel; UACCE_CMD_QM_SET_QP_CTX: hisi_qm.h beside it,
which KAE's user library sends first, where a queue's type is not the default. With all queues in use open answers
EBUSY (qm_create_qp_nolock of hisi_qm's qm.c); where an ioctl does, the mailbox is dead (qm_mb_nolock). The queue is
left to close(2): with KAE's driver UACCE_CMD_PUT_Q and close together release a queue twice.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_START_Q = 0x5700  # _IO('W', 0)
_SET_QP_CTX = 0xC004480A  # _IOWR('H', 10, struct hisi_qp_ctx), of two __u16: the number and the type of the queue

_HARMLESS = {"open": (errno.EBUSY,), "context": (errno.ENOTTY, errno.EINVAL), "start": (errno.ENOTTY,)}
"""The answers that refuse no queue: all are in use, or there is no such ioctl. The context is the driver's own; START_Q
is of uacce itself (uacce_fops_unl_ioctl of drivers/misc/uacce/uacce.c), so EINVAL comes from the start."""


def steps(node: str) -> Iterator[tuple[str, int]]:
    """Yield `open`, and unless it is refused `context` and `start`, each with the errno that answers it, 0 for none."""
    try:
        descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        yield "open", error.errno or errno.EIO
        return
    yield "open", 0
    try:
        for step, request, argument in (("context", _SET_QP_CTX, bytes(4)), ("start", _START_Q, b"")):
            try:
                fcntl.ioctl(descriptor, request, argument or 0)
            except OSError as error:
                yield step, error.errno or errno.EIO
            else:
                yield step, 0
    finally:
        os.close(descriptor)


def outcome(node: str) -> int:
    """Return the errno with which a device refuses a queue; 0 also if all are in use, or if it has no such ioctls."""
    for step, number in steps(node):
        if number and number not in _HARMLESS[step]:
            return number
    return 0


def command(nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the command that prints the outcomes, a line each."""
    return (sys.executable, "-I", "-S", str(Path(__file__).resolve()), *nodes)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        sys.stdout.write(f"{outcome(path)}\n")
