"""The stand-in API server of all tests without a control plane: `apiserver` over HTTP, and the objects that it serves.

Any test may import `apiserver`. `transport` is for servers that fail in ways of their own, such as the watcher's.
"""
