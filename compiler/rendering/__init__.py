"""Decisions to Kubernetes objects, and objects to the files of a cluster."""
