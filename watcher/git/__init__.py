"""Git for one file of a repository: look, commit, push. The watcher imports `repository` and `credentials.Secrets`."""
