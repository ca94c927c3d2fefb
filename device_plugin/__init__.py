"""The device plugin: reports a node's devices to its kubelet and hands them to containers.

One asyncio process for all kinds, and one that reads sysfs for it, root without any capability, without an API token.
It knows its node only: `sysfs` reads the devices, `health` judges them, `host_links` keeps the host paths that answers
name, and `service` answers the kubelet. Everything in an answer derives from a PCI address, because the kubelet
replays answers after restarts and reboots, when the numbers of entries have changed. Nothing outside may import from
here.
"""
