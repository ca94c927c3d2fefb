"""Values as bytes that take little room while other work goes on, and that processes send to each other."""

import zlib
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Packed(NamedTuple, Generic[Value]):
    """A compressed value of this run; it is never read from a disk."""

    content: bytes

    @classmethod
    def of(cls, value: Value) -> "Packed[Value]":
        """Return a value, compressed by the quickest level."""
        import pickle  # noqa: PLC0415 - a call that finds nothing changed packs nothing

        return cls(zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1))

    def value(self) -> Value:
        """Return the value again."""
        import pickle  # noqa: PLC0415

        return pickle.loads(zlib.decompress(self.content))  # type: ignore[no-any-return]  # noqa: S301 - see the class
