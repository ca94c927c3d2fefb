"""The device holders, their eviction, and the Lease that a host needs for a swap."""
