"""Argo CD and Flux as a test drives them. Import the engine; `gitops` is their common interface."""
