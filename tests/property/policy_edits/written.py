"""Documents as people write them: in block and flow style, with any indentation and line ends, and comments."""

import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[a-z][a-z]+(-[a-z]+)*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off")


class Hand:
    """One person's style."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.numbers = itertools.count()
        self.step = draw.choice((2, 2, 4))
        self.dash = draw.choice((0, self.step))
        self.chatty = draw.choice((0.0, 0.1, 0.3))
        self.flowing = draw.choice((0.0, 0.1, 0.4))

    def text(self, documents: Sequence[Mapping[str, Any]]) -> str:
        """Return the text of a file with these documents."""
        parts = ["".join(f"{line}\n" for line in self._mapping(each, 0)) for each in documents]
        text = self.draw.choice(("", "---\n", f"# {self._token()}\n")) + "---\n".join(parts)
        text = text.removesuffix("\n") if self.draw.random() < 0.2 else text
        return text.replace("\n", "\r\n") if self.draw.random() < 0.2 else text

    def _token(self) -> str:
        return f"c{next(self.numbers)}: said [by] 'people' {{and: more"

    def _own_line(self, indent: int) -> Iterator[str]:
        while self.draw.random() < self.chatty / 2:
            yield self.draw.choice((f"{' ' * indent}# {self._token()}", f"{' ' * indent}# {self._token()}", ""))

    def _behind(self) -> str:
        return f"{' ' * self.draw.randint(1, 3)}# {self._token()}" if self.draw.random() < self.chatty else ""

    def _mapping(self, data: Mapping[str, Any], indent: int) -> Iterator[str]:
        for key, value in data.items():
            yield from self._own_line(indent)
            head = f"{' ' * indent}{self._scalar(key)}:"
            if self._is_flow(value):
                yield f"{head}{' ' * self.draw.choice((1, 1, 2))}{self._flow(value)}{self._behind()}"
            elif isinstance(value, Mapping):
                yield f"{head}{self._behind()}"
                yield from self._mapping(value, indent + self.step)
            else:
                yield f"{head}{self._behind()}"
                yield from self._items(value, indent + self.dash)

    def _items(self, items: Sequence[Any], indent: int) -> Iterator[str]:
        for item in items:
            yield from self._own_line(indent)
            if self._is_flow(item):
                yield f"{' ' * indent}- {self._flow(item)}{self._behind()}"
                continue
            lines = [*self._mapping(item, indent + 2)]
            first = next(number for number, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#")
            yield from lines[:first]
            yield f"{' ' * indent}- {lines[first][indent + 2 :]}"
            yield from lines[first + 1 :]

    def _is_flow(self, value: Any) -> bool:
        if not isinstance(value, Mapping | list) or not value:
            return True
        return self.draw.random() < self.flowing

    def _flow(self, value: Any) -> str:
        pad = self.draw.choice(("", "", " "))
        if isinstance(value, Mapping):
            inside = ", ".join(f"{self._scalar(key)}: {self._flow(each)}" for key, each in value.items())
            return f"{{{pad}{inside}{pad}}}"
        if isinstance(value, list):
            return f"[{pad}{', '.join(map(self._flow, value))}{pad}]"
        return self._scalar(value)

    def _scalar(self, value: Any) -> str:
        if not isinstance(value, str):
            return json.dumps(value)
        if _PLAIN.fullmatch(value) and value not in _WORDS and self.draw.random() < 0.8:
            return value
        return json.dumps(value) if self.draw.random() < 0.5 else "'" + value.replace("'", "''") + "'"
