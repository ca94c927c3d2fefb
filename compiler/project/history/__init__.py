"""Two revisions of a project and their difference.

`repository` reads git's objects, `sides` the documents of a revision or of the working tree, and `comparison` compares
two sides cluster by cluster.
"""
