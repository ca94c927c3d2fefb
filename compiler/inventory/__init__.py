"""Nodes as values, and the reduction of Kubernetes Nodes to an inventory; it needs no pydantic.

The compiler and the watcher import all three modules: `snapshot` holds the values, `reduction` makes them of Nodes, and
`canonical_form` reads and writes the NodeInventory document.
"""
