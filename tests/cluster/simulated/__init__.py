"""Nodes and kubelets without containers, and the fleets that are made of them. Import any module."""
