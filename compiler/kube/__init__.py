"""The Kubernetes API over the network: credentials, the client, and what is asked of a cluster."""
