"""The stand-in API server of all tests without a control plane: over HTTP, with the objects that it serves."""
