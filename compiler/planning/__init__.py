"""Decisions: which node is in which pool of its policy, and what is installed there."""
