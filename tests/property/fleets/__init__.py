"""Seeded random fleets, each compiled and compared node by node: `python -m tests.property.fleets --count 2000`.

A fleet is a function of its seed alone, so `--seed NUMBER --count 1` makes any of them again.
"""
