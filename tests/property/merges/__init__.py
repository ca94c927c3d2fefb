"""Pairs of changes on two branches of a fleet, each compiled, then merged or rebased by git and compiled again."""
