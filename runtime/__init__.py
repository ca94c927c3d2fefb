"""What the node programs and the watcher share: config file, logs, probes, metrics, signals and their last word.

It decides nothing about devices, drivers or git, and imports nothing else of this repository. What goes wrong in the
world leaves it as `errors.Failure`; nothing here ends a process, but a second signal.
"""
