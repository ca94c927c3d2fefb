"""Rules for KAEClusters: for one, for its Kubernetes release, and for what several are applied to."""
