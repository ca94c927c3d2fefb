"""What the resources of a recipe need of the host: files and device nodes, found by paths and globs."""
