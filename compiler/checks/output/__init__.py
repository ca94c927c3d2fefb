"""Rules for output/: `changes` has what a compile does to it, `foreign` the files of others."""
