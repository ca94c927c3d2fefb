"""Pydantic models of the documents that people write, a module for each kind of them.

The JSON Schemas of schemas/ and the definitions of `kae schema --crd` are made from them. Fields have the names of the
documents; those of a cluster are the fields of its value. A document is validated by its JSON Schema first, so
the models hold no validators. Other packages import `json_schemas` alone.
"""
