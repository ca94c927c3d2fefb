"""The control plane, a client of its API, and the objects that tests send to it. Import any module."""
