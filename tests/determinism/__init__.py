"""The same input gives the same bytes: whatever the machine, the Python, the language, the disk and the day.

`python -m tests.determinism` compiles the example fleet under every condition and prints a table.
"""
