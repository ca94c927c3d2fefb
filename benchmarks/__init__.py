"""Time and memory of whole `kae` processes, beside helm and kustomize where they can do the work."""
