"""What the code of templates asks for as it runs, in jinja2's names: the part of the language that our templates use.

jinja2's own run time cannot be imported without its compiler. A name that is not there ends the rendering, as with
jinja2's StrictUndefined, and a template that asks for a filter or a test of jinja2's that is not here fails.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

Function = Callable[["Context"], Iterator[str]]
"""A template: it yields the parts of the text."""

missing = object()
"""The value of a name that nothing has set."""


class TemplateRuntimeError(Exception):
    """A template asks for a name, a filter or a test that is not there."""


class Undefined:
    """The value of a name that is not there: an error."""

    def __init__(self, hint: str = "", name: str = "") -> None:
        """Raise TemplateRuntimeError."""
        raise TemplateRuntimeError(hint or f"'{name}' is undefined.")


class LoopContext:
    """The items of a loop, each with the loop itself, which says where it is."""

    def __init__(self, items: Iterable[Any], undefined: type[Undefined]) -> None:
        """Take the items; `undefined` is what jinja2 hands over."""
        self._items = items
        self.first = True

    def __iter__(self) -> Iterator[tuple[Any, "LoopContext"]]:
        """Yield each item with the loop."""
        for index, item in enumerate(self._items):
            self.first = index == 0
            yield item, self


class Context:
    """The names of a template that is being rendered."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take the values of names from outside."""
        self._values = values
        self.vars: dict[str, Any] = {}
        self.exported_vars: set[str] = set()

    def resolve_or_missing(self, name: str) -> Any:
        """Return the value of a name, or `missing`."""
        return self._values.get(name, missing)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, as a template says."""
        return function(*arguments)


class Environment:
    """The functions that the code of every template finds."""

    undefined = Undefined
    concat = "".join
    filters: Mapping[str, Callable[..., Any]] = MappingProxyType({"length": len})
    tests: Mapping[str, Callable[..., Any]] = MappingProxyType({"none": lambda value: value is None})
    finalize: Callable[[Any], str]
    """Returns a value as it stands in the text; `templates` sets it."""

    @staticmethod
    def getattr(value: Any, name: str) -> Any:
        """Return an attribute of a value, or what a mapping has by this name. Raises TemplateRuntimeError."""
        try:
            return getattr(value, name)
        except AttributeError:
            return environment.getitem(value, name)

    @staticmethod
    def getitem(value: Any, key: Any) -> Any:
        """Return what a mapping or a list has. Raises TemplateRuntimeError."""
        try:
            return value[key]
        except (LookupError, TypeError):
            raise TemplateRuntimeError(f"'{type(value).__name__}' has no '{key}'.") from None


environment = Environment()

Named = TypeVar("Named")


def internalcode(function: Named) -> Named:
    """Return the function: jinja2 marks with it what a traceback leaves out."""
    return function


def str_join(values: Iterable[Any]) -> str:
    """Return values beside each other, as `~` does."""
    return "".join(map(str, values))
