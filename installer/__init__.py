"""The driver installer brings the driver of its own host to the state that its config names, and verifies it.

It reads the state of the host (host/), decides (decide/, pure), stages a complete driver without touching the running
one (sources/, store), and then swaps it (drain/, change/): Lease, announcement, eviction, unload, files, load,
verification. A failure after the unload restores the previous driver. The installer changes only its own host, and
meets the compiler only through its config.
"""
