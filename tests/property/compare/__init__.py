"""Two checkouts compared by what they make of the same projects: `python -m tests.property.compare BEFORE AFTER`.

Both run with this Python, in a process each. `--only both --seed 7 --count 1` is one fleet of them all, which `--keep`
leaves with both outputs; `--allow config` lets the configs of programs differ.
"""
