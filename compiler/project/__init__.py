"""A project on disk: its document files, read into a fleet, and the compiler's own data files.

Import `load` where documents are read; `document_files` and `package_data` are light enough for every call.
"""
