"""The interface DRA: what the scheduler sees of the devices, and what the kubelet gets for a claim.

`slices`, `quantities` and `cdi` are pure: the devices in ResourceSlices, amounts of them, and the file that container
runtimes read. `publisher` writes the slices by `api_server`, `claims` remembers what is given, `held` reads what the
kubelet says of it, `forgotten` finds what nobody else knows, and `driver` serves the kubelet.
"""
