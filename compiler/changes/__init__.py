"""The comparison of two outputs or two revisions of a cluster. Pure.

`losses` compares the earlier output with the plan, to find what a compile takes away; `difference` compares the
documents of two revisions, to find what a change does.
"""
