"""The settings of other operators, and the documents that mean the same; serves `kae import`."""
