"""Nodes as values, and the reduction of Kubernetes Nodes to an inventory; needs no pydantic."""
