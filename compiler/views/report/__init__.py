"""The page of `kae report`."""
