"""The languages: pydantic models of the documents people write and of the config files the programs read.

They are the one source of the JSON Schemas in schemas/ and of the CRD that `kae schema` prints. Fields bear
the documents' own names, in their own spelling. A document is judged by its JSON Schema before a model is
built from it, so the models hold no validators.
"""
