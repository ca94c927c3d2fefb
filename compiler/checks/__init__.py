"""Findings that no schema can express: one function for each rule, whose docstring is the rule itself.

`policy`, `recipe`, `cluster` and `inventory` check one document, and call `containers`, `driver`, `images`, `mappings`,
`parameters`, `pools` and `resources` for its parts; `fleet` checks all documents together, `assignment` the policies of
a cluster, and `nodes` its plan. `driver_images` judges what an image holds. `output` and `risks` judge what a change
does: `change` has what both need; `lists` is for all. The pipeline, the commands and `migrate` import them. Mistakes
that people wrote are errors; facts about nodes are warnings.
"""
