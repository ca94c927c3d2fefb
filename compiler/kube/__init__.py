"""The Kubernetes API over the network: credentials, the one API client, node watches, reads of a cluster, and Leases.

It imports `compiler.errors` only, so that the programs share it: the driver installer and the watcher may import any
module of it. Everything that fails leaves it as an `errors.WorldError`.
"""
