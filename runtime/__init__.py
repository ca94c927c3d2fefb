"""The parts that the programs share: config file, logs, probes, metrics, signals, child processes, files, PCI scan.

It decides nothing about devices, drivers or git, and imports nothing else of this repository. Programs may import any
module of it. I/O errors leave it as `errors.Failure`; only a second signal ends the process.
"""
