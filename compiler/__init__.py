"""The policy compiler: KAEPolicy, KAECluster and node inventories in, static manifests out.

One straight line, and no stage looks back:

    load -> schema -> parse -> checks -> plan -> render -> write

The core is pure: it neither touches disk, clock, environment or network, nor logs or prints.
`files`, `load`, `write` and `cache` are the ends that touch the disk, `commands` and `__main__` are the
shell around it. The same input gives the same bytes, on every machine and at every time.
"""

__version__ = "0.1.0"

API_VERSION = "device.openfuyao.com/v1alpha1"
"""The one API version of the documents in policies/ and inventory/."""
