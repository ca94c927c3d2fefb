"""The comparison of two outputs or two revisions of a cluster. Pure.

Of a compile, `deployed` has the earlier output and the new one, `placement` the nodes that their DaemonSets serve, and
`losses` what nodes lose. Of two revisions of the documents, `intent` has the fields that differ, `pods` the sides,
`effects` what happens to nodes, and `difference` joins them. `objects` compares the objects and the pods of both, and
what is found is accepted by `acceptance`.
"""
