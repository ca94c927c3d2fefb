"""Validation of raw documents against the JSON Schemas of schemas/, with errors in plain words.

No other stage reads a document before it has passed here. `judge` finds a document's kind and runs the validators,
`explanations` says what is wrong with it and what to write instead, with the words of `phrases`. Other packages import
`Judge`.
"""

from compiler.schema.judge import Judge as Judge
