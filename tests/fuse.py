"""File systems that never answer, as of a dead server: real ones, by FUSE, which take root (linux/fuse.h)."""

import contextlib
import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

_IN, _OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
_LOOKUP, _OPEN, _INIT = 1, 14, 26
_FOLDER, _FILE = 0o040755, 0o100644
_LIBC = ctypes.CDLL(None, use_errno=True)


def obstacles() -> Iterator[str]:
    """Yield what keeps this machine from such a file system."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        yield "Dead file systems need root and /dev/fuse (modprobe fuse)."


@contextlib.contextmanager
def dead(folder: Path, opened: str = "") -> Iterator[int]:
    """Mount a file system whose server is dead: whoever asks for anything in it waits, until it is killed or this ends.

    With `opened` the server lives until a process has a file of this name open, whose number is yielded; else 0.
    """
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if _LIBC.mount(b"dead", os.fsencode(folder), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    with contextlib.ExitStack() as ending:
        ending.callback(_LIBC.umount2, os.fsencode(folder), 2)  # MNT_DETACH
        tenant = 0
        if opened:
            command = ("sh", "-c", 'exec sleep 600 <"$0"', str(folder / opened))
            pipe = subprocess.PIPE  # No device, as /dev/null is.
            holding = ending.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
            ending.callback(holding.kill)
            _serve(device)
            tenant = holding.pid
        # Without the device all requests end (ENOTCONN), so that nothing waits for what follows.
        ending.callback(os.close, device)
        yield tenant


def _serve(device: int) -> None:
    """Answer until a file is open."""
    while True:
        request = os.read(device, 1 << 20)
        _, code, number, *_ = _IN.unpack_from(request)
        if code == _INIT:
            answer = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 1 << 17, 0, 0, 0, 0)
        elif code == _LOOKUP:
            answer = struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + _attributes(_FILE)
        elif code == _OPEN:
            answer = struct.pack("<QII", 0, 0, 0)
        else:
            answer = struct.pack("<QII", 0, 0, 0) + _attributes(_FOLDER)
        os.write(device, _OUT.pack(_OUT.size + len(answer), 0, number) + answer)
        if code == _OPEN:
            return


def _attributes(mode: int) -> bytes:
    return struct.pack("<QQQQQQIIIIIIIIII", 2, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
