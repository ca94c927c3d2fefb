"""The devices of the host: PCI functions in sysfs, their events, and their health.

`plugin`, `loop` and the command line import any module of it; it imports nothing of kubelet/.
"""
