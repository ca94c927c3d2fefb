"""Mutations of a document as text and as bytes: what editors, merges and broken transfers leave."""

import random
from collections.abc import Callable, Sequence

from tests.fuzz import words

_BYTES = (
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\x00", b"\x1b", b"\x85", b"\xef\xbb\xbf"),
)
_TOKENS = (
    *(":", ": ", "- ", "#", " #", "'", '"', "{", "}", "[", "]", ",", "&a ", "*a", "!!int ", "!a ", "|", ">", "? "),
    *("<<: *a\n", "---\n", "...\n", "%YAML 1.2\n---\n", "%TAG ! a\n", "\t", "\n", "\r", " ", "\\", "null", "~", "0"),
    *("-", "&a {b: *a}\n"),
)


def mutated(chance: random.Random, content: bytes) -> bytes:
    """The text with one to three mishaps."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = chance.choice(_MISHAPS)(chance, content)
    return content


def duplicated_key(chance: random.Random, content: bytes) -> bytes:
    """A line that holds a key and its value, a second time."""
    lines = content.splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if b": " in line]
    if not found:
        return content
    number = chance.choice(found)
    return b"".join((*lines[: number + 1], lines[number], *lines[number + 1 :]))


def _lines(act: Callable[[random.Random, list[bytes], int], None]) -> Callable[[random.Random, bytes], bytes]:
    def mutate(chance: random.Random, content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        if lines:
            act(chance, lines, chance.randrange(len(lines)))
        return b"".join(lines)

    return mutate


@_lines
def _delete(_: random.Random, lines: list[bytes], at: int) -> None:
    del lines[at]


@_lines
def _indent(chance: random.Random, lines: list[bytes], at: int) -> None:
    for number in range(at, min(at + chance.choice((1, 1, 3)), len(lines))):
        line = lines[number]
        lines[number] = chance.choice((b" " + line, b"  " + line, b"\t" + line, line[1:], line[2:], line.lstrip()))


@_lines
def _exchange(chance: random.Random, lines: list[bytes], at: int) -> None:
    other = chance.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]


@_lines
def _repeat(chance: random.Random, lines: list[bytes], at: int) -> None:
    block = lines[at : at + chance.choice((1, 2, 5, 20))]
    place = chance.choice((at, chance.randint(0, len(lines))))
    lines[place:place] = block * chance.choice((1, 1, 2, 30))


@_lines
def _comment(_: random.Random, lines: list[bytes], at: int) -> None:
    lines[at] = b"#" + lines[at]


@_lines
def _join(_: random.Random, lines: list[bytes], at: int) -> None:
    lines[at] = lines[at].rstrip(b"\r\n")


@_lines
def _conflict(_: random.Random, lines: list[bytes], at: int) -> None:
    lines[at:at] = [b"<<<<<<< HEAD\n", lines[at], b"=======\n"]
    lines.insert(at + 4, b">>>>>>> branch\n")


@_lines
def _unquote(_: random.Random, lines: list[bytes], at: int) -> None:
    lines[at] = lines[at].replace(b'"', b"").replace(b"'", b"")


def _cut(chance: random.Random, content: bytes) -> bytes:
    at = chance.randint(0, len(content))
    return content[at:] if chance.random() < 0.2 else content[:at]


def _flip(chance: random.Random, content: bytes) -> bytes:
    if not content:
        return content
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]


def _insert(chance: random.Random, content: bytes) -> bytes:
    at = chance.randint(0, len(content))
    tokens = [token.encode() for token in _TOKENS]
    odd = [word.encode("utf-8", "surrogatepass") for word in words.ODD]
    return content[:at] + chance.choice(chance.choice((tokens, odd, _BYTES))) + content[at:]


def _breaks(chance: random.Random, content: bytes) -> bytes:
    return content.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\n", b"\n\r", b"\xe2\x80\xa8", b"\xc2\x85")))


def _encode(chance: random.Random, content: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(chance.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp037")), "replace")


def _replace_all(_: random.Random, __: bytes) -> bytes:
    return b""


_MISHAPS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    *(_delete, _delete, _indent, _indent, _exchange, _repeat, _repeat, _comment, _join, _conflict, _unquote, _unquote),
    *(_cut, _cut, _flip, _flip, _insert, _insert, _insert, duplicated_key, duplicated_key, _breaks),
    *(_encode, _replace_all),
)
