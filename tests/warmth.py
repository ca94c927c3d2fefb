"""Values that the calls of a process share in tests, as each call would make them from the same bytes anew.

What the compiler renders and what it knows of its own files depend on templates/, schemas/ and the package alone, and
took a third of the time of a call. A real process makes each of them once.
"""

import contextlib
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

from compiler import schema
from compiler.model import json_schemas
from compiler.output import cache
from compiler.rendering import templates


def _kept(make: Callable[..., Any], decisive: int) -> Callable[..., Any]:
    """Return a function whose calls with an equal decisive argument, by position, give the result of the first."""
    made: list[tuple[Any, Any]] = []

    def given(*arguments: Any) -> Any:
        for known, value in made:
            if known == arguments[decisive]:
                return value
        made.append((arguments[decisive], make(*arguments)))
        return made[-1][1]

    return given


_ONCE = (
    (schema, "Judge", _kept(schema.Judge, 0)),
    (templates, "renderer", _kept(templates.renderer, 0)),
    (json_schemas, "schema", _kept(json_schemas.schema, 0)),
    (cache, "fingerprint", _kept(cache.fingerprint, 1)),
)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Within, calls that only depend on what stays the same are answered from memory."""
    with contextlib.ExitStack() as stack:
        for module, name, answer in _ONCE:
            stack.enter_context(unittest.mock.patch.object(module, name, answer))
        yield
