"""The inventory watcher: watches the nodes, reduces them to the NodeInventory, and commits it when it changed.

It decides nothing and writes nothing in the cluster. What becomes a commit, and when, is pure (`picture`, `losses`,
`summary`); nodes come from `feed`, git is behind `repository`, and `program` joins them. Where it is not sure it does
not commit: an old inventory harms nobody, a wrong one does.
"""
