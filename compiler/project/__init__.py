"""A project on disk: its document files, read into a fleet, and the package's own data."""
