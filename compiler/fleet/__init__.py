"""Policies and clusters as values, the selectors of nodes, and the assignment of each node to one policy.

Every package above may import it; it makes no findings.
"""
