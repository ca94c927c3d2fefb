"""Golden trees: projects, each with a sentence that says why it is here, and the output that it compiles to.

Import `trees` for the files of every tree; one case is stored whole, the others as their differences from it.
"""
