"""The schema stage: whether a raw document has the shape of its language, and plain words where it has not.

The verdict is that of the JSON Schemas in schemas/, with patterns read as ECMA-262 reads them. Nothing reads
a document before it has passed here. `recognition` finds out which language a document speaks, `judge` asks
the engines, and `wording` says what they found in the words of YAML.
"""

from compiler.schema.judge import Judge as Judge
