"""The interface DRA: what the scheduler sees of the devices, and what the kubelet gets for a claim.

`slices` and `quantities` are pure: the devices in ResourceSlices, and amounts of them. `cdi` has the file that
container runtimes read, by a look at the device nodes. `publisher` writes the slices by `api_server`, `claims` knows
what is given, `held` reads what the kubelet says of it, `forgotten` finds what nobody else knows,
`resource_claims` reads a claim, and `driver` serves the kubelet.
"""
