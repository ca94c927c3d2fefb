"""Stories on a real kernel: a Debian guest in QEMU, PCI functions made of software, and stub modules of KAE's names.

The driver installer and the device plugin run in the guest as they are, with the kernel's own modprobe, udev, uevents,
SR-IOV, boots and panics. `conftest` has the fixtures, `machine` the guest, `host` what an installer needs in it.
"""
