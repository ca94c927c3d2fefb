"""Pydantic models of the documents that people write and of the config files that the programs read.

The JSON Schemas of schemas/ and the definitions of `kae schema --crd` are made from them. Fields have the names of the
documents. A document is validated by its JSON Schema first, so the models hold no validators. Other packages import
the models, and (`kae schema` only) `json_schemas`.
"""
