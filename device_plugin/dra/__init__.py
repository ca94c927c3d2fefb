"""The interface DRA: what the scheduler sees of the devices, and what the kubelet gets for a claim.

`slices` and `cdi` are pure: the devices in ResourceSlices, and in the file that container runtimes read. `publisher`
writes the slices by `api_server`, `claims` remembers what is given, `held` reads what a device plugin gave, and
`driver` serves the kubelet.
"""
