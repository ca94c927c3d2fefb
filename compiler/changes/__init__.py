"""The comparison of two outputs or two revisions of a cluster. Pure.

`output` compares the earlier output with the plan, to find what a compile takes away; `revisions` compares the
documents of two revisions, to find what a change does. Both use `objects`, and what they find is accepted by
`acceptance`.
"""
