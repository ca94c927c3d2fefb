"""Reads pods, logs, events and nodes of a live cluster for a support bundle, and masks secrets.

Import `collection` for what a cluster says, and `masking` for what hides secrets.
"""
