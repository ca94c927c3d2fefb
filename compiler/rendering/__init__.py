"""Decisions to Kubernetes objects, and objects to the files of a cluster; pure.

Import `layout` for the input of the templates and for the files, and `templates` to render it.
"""
