"""The inventory watcher: watches the nodes, reduces them to the NodeInventory, and commits it when it changed.

It writes nothing in the cluster. Pure modules decide what to commit, and when (`pending_changes`, `loss_guard`,
`commit_message`); nodes come from `nodes`, `git.repository` commits, and `loop` joins them. In doubt it does not
commit: an old inventory does no harm, a wrong one does. Nothing outside may import from here.
"""
