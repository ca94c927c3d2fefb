"""Validation of raw documents against the JSON Schemas of schemas/, with errors in plain words.

No other stage reads a document before it has passed here. `judge` finds a document's kind and runs the validators,
`explanations` and `phrases` word the errors, and `hints` says what to write instead. Other packages import `Judge`.
"""

from compiler.schema.judge import Judge as Judge
