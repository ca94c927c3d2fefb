"""The files and device nodes of the host that the resources of a recipe need, found by paths and globs."""
