"""What a schema cannot say: one function a rule, its docstring the rule itself.

`policy` and `cluster` look at one document each (`containers` at the secrets and amounts of a policy), `fleet` at what
several say together: they give errors.
`world` looks at what the nodes are, and gives warnings.
"""
