"""A project on disk: its root, its kae.yaml and its document files, and the compiler's own data files.

`project_file` finds the project and reads its settings, `load` reads its documents into a fleet, `by_cluster` plans
its clusters, and `compile_call` knows what has changed since an earlier compile. `history` reads older documents from
git. All but `load`, `by_cluster.planned` and `history` are light enough to import in every call.
"""
