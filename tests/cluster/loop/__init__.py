"""The whole way of a commit to a device, and back: the parts of `make test-loop` and of `make demo`."""
