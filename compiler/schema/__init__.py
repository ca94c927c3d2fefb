"""Validation of raw documents against the JSON Schemas of schemas/, with errors in plain words.

No other stage reads a document before it has passed here. `recognition` finds the schema of a document, `judge` runs
the validators, and `explanations` and `phrases` word the errors. Other packages import `Judge`.
"""

from compiler.schema.judge import Judge as Judge
