"""The commands of `kae`: one module each, with `run(arguments) -> exit code`. They join the ends of the line."""
