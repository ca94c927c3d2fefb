"""Decisions to Kubernetes objects, and objects to the files of a cluster; pure.

Import `components` and `gitops` for the input of the templates, `templates` to render it, and `layout` for the files.
"""
