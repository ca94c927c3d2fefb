"""The rehearsal of a change on a real control plane, with nodes that are hollow. Meets the world.

`programs` starts a control plane of its own, `api` sends requests, `hollow` has the nodes and acts as their kubelets,
and `stage` brings each side of the change and looks at the pods. `outcome` compares them with a difference, and is
pure. Import `stage`, `programs` and `outcome`.
"""
