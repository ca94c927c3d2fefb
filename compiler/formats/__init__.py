"""YAML and JSON text to plain data with positions, and back; nothing here knows what KAE is.

`decode` reads the bytes of a file, `documents` holds what was read, `canonical` writes data, and `edits` changes one
string of a file. Other modules are imported from here only by them.
"""
