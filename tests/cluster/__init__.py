"""A real control plane and a real node for tests: etcd, the Kubernetes programs and containerd, on this machine.

One pytest process at a time owns the cluster, starts it when the first test asks for it, and ends it. A `keeper`
process watches over that owner and clears up after it, however it ends. Every process runs in one cgroup, every
mount in one mount namespace and every file in one folder, so that the next run finds what both of them left.

Its parts are packages: `local` (processes of this machine), `control` (control plane), `nodes`, `simulated` (nodes
without containers), `engines` (GitOps) and `loop` (all of it together, for `make test-loop` and `make demo`). Other
tests import from `local` and `nodes`.
"""
