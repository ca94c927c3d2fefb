"""The comparison of two outputs or two revisions of a cluster. Pure.

`sides` has what a cluster is on each side of a change, `objects` compares their objects and `pods` their pods. Of a
compile, `placement` has the nodes that DaemonSets serve, and `losses` what nodes lose. Of two revisions of the
documents, `intent` has the fields that differ, `effects` what happens to nodes, and `difference` joins them. What is
found is accepted by `acceptance`.
"""
