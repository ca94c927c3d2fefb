"""Random pairs of revisions on fake hosts: what `kae diff` says of drivers is what the real installer does there."""
