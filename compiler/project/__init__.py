"""A project on disk: its root, its kae.yaml and its document files, and the compiler's own data files.

`project_file` finds the project and reads its settings, `load` reads its documents into a fleet, `by_cluster` plans
its clusters, and `compile_call` knows what has changed since an earlier compile. `repository` reads older documents
from git, and `comparison` compares two revisions. All but these, `load`, `by_cluster.planned` and `recipes` are light
enough to import in every call.
"""
