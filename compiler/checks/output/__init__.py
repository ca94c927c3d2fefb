"""Rules for what a compile does to output/: `removals` need a person, `changes` are told."""
