"""The plan: the pool of each node, the components that run on it, and the images that they need.

`checks`, `rendering`, `status` and the commands import it; it makes no findings.
"""
