"""The policy compiler: KAEPolicy, KAECluster and node inventories in, static manifests out.

One straight line, and no stage looks back:

    read the documents -> for each cluster: read its inventory -> check it -> plan -> check its nodes -> render
        -> compare with the earlier output -> check what takes all clusters

The core is pure: it touches no disk, clock, environment or network, and it neither logs nor prints. `project`, `output`
and `kube` are the ends that touch disk and network; `commands` and `__main__` are the shell around it. The same input
gives the same bytes, on every machine and at any time.
"""

try:
    # Written from git's tag as a wheel is built or a checkout is installed.
    from compiler._version import __version__ as __version__
except ImportError:
    __version__ = "0+unknown"

API_VERSION = "device.openfuyao.com/v1alpha1"
"""The one API version of the documents in policies/ and inventory/."""
