"""The steps of a change: prepare, swap, verify, and roll back on failure."""
