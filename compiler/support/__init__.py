"""Makes a support bundle: reads pods, logs, events and nodes of a live cluster, masks secrets, and packs the archive.

Import `collection` for what a cluster says, `masking` for what hides secrets, and `archive` for the file.
"""
