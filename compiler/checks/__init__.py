"""Findings that no schema can express: one function for each rule, whose docstring is the rule itself.

`policy`, `clusters` and `inventory` check one document (`policy` with `containers`, `driver`, `images`, `mappings` and
`pools`), `fleet` checks all documents together, `clusters.targets` what they are applied to, `assignment` the policies
of a cluster, and `nodes` its plan. `output` and `risks` judge what a change does: `change` has what both need. The
pipeline, the commands and `migrate` import them. Mistakes that people wrote are errors; facts about nodes are warnings.
"""
