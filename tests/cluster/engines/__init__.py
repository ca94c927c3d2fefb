"""Argo CD and Flux as a test drives them, and `following`, which has one of them follow a repository."""
