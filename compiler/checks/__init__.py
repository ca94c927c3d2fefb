"""What a schema cannot say: one function a rule, its docstring the rule itself.

`policy` and `cluster` look at one document each, `fleet` at what several say together: they give errors.
`world` looks at what the nodes are, and gives warnings.
"""
