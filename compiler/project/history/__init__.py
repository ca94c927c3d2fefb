"""Two revisions of a project, as `repository` reads them from git's objects, and their `comparison`."""
