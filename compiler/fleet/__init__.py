"""Policies and clusters as values, and the assignment of each node to one policy."""
