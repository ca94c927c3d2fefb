"""The inventory's file in a git repository: fetch, commit, push, and what can go wrong."""
