"""Walks of random edits through the example fleet, each compiled, and judged by its manifests before and after."""
