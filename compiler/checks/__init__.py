"""What a schema cannot say: one function a rule, its docstring the rule itself.

`policy` and `cluster` look at one document each and give errors; `world` looks at what the nodes are and
gives warnings.
"""
