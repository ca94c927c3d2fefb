"""Mutated documents by the hundred thousand, each compiled in this process and judged.

`python -m tests.fuzz --count 100000 --seed 0`. A document is a function of the seed and its number alone,
so `--only NUMBER` makes any of them again.
"""
