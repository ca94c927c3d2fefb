"""The comparison of two revisions of the documents, for `kae diff` and `kae report`."""
