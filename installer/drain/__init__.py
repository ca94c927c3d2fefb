"""Who uses a device, which pods are evicted, and the Lease that admits a host to a swap."""
