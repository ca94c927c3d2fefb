"""Mutants: small faults in copies of the programs, to see which of them the tests notice (`make mutants`).

`places` makes the faults, `workspace` the copies and their runs of pytest, `reach` is the plugin of these runs.
"""
