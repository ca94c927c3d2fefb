"""Values that calls share, as a mutant differs in one document only."""

import contextlib
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

from compiler import cli, schema
from compiler.output import cache
from compiler.rendering import templates


class Warmth:
    """The parser, the judge, the renderer with what it rendered, and the digest of the compiler's code."""

    def __init__(self) -> None:
        self._once = {
            (cli, "parser"): _first(cli.parser),
            (schema, "Judge"): _first(schema.Judge),
            (templates, "renderer"): _first(templates.renderer),
            (cache, "fingerprint"): _first(cache.fingerprint),
        }

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Within, the calls that only depend on what stays the same are answered from memory."""
        with contextlib.ExitStack() as stack:
            for (module, name), answer in self._once.items():
                stack.enter_context(unittest.mock.patch.object(module, name, answer))
            yield


def _first(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose every call gives the result of the first."""
    made: list[Any] = []

    def given(*arguments: Any) -> Any:
        if not made:
            made.append(make(*arguments))
        return made[0]

    return given
