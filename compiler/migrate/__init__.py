"""The KAE Operator's options, and the policies and clusters that mean the same; serves `kae import`."""
