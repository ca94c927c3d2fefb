"""The device plugin: reports a node's KAE devices to its kubelet and hands them to containers.

One asyncio process for all kinds, root without any capability, without an API token. It knows its node only: sysfs says
what is there, `health` what that is worth, `publication` keeps the host paths that answers name, and `service` tells
the kubelet. Everything in an answer derives from a device's PCI address, because the kubelet replays answers after
restarts and reboots, when the numbers of entries have changed.
"""
