"""The host as it is: its files, kernel modules, packages and PCI functions, and the record of changes."""
