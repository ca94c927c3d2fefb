"""Processes and files of a cluster on this machine, and the one process that owns them. Import any module."""
