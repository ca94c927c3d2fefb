"""Policies, clusters and inventories as values, and the assignment of each node to one policy.

Every package above may import it; it makes no findings.
"""
