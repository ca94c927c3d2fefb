"""The interface DRA: what the scheduler sees of the devices, and what the kubelet gets for a claim.

`slices` and `quantities` are pure: the devices in ResourceSlices, and amounts of them. `cdi` makes the files that
container runtimes read, and looks at device nodes for that. `offering` has both kept as devices and claims are,
`publisher` writes the slices by `api_server`, `claims` knows what is given, `held` reads what the kubelet says of it,
`forgotten` finds what nobody else knows, `resource_claims` reads a claim, and `claim_service` and `driver` serve the
kubelet.
"""
