"""Rules for output/: what a compile does to it (`removals` need a person, `changes` are told), and `foreign` files."""
