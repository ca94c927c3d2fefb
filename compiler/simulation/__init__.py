"""The simulation of the rollout that a change starts: discrete events from seeded draws. Pure.

`rollout` has a fleet and one run of it, `durations` what is drawn for a run, `holders` the pods and budgets of a
snapshot, and `forecast` makes the fleet of a change and sums its runs up. Import `forecast`, and the readers of what it
is given. Chance comes as an argument.
"""
