"""The store of drivers and the record of changes on the host, below /var/lib/kae."""
