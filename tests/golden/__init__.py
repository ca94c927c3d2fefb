"""Golden trees: a project, a sentence that says why it is here, and its output byte for byte."""
