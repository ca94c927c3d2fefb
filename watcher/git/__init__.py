"""Git for one file of a repository: fetch, commit, push, and git's errors.

The watcher imports `repository`, `git.Author` and `credentials.Secrets`; the rest serves them.
"""
