"""Phrases that messages share: quoted words, lists, tables, counts, paths; escapes for what terminals cannot show."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST = 80
"""Characters of a document's own words that a message repeats."""

_CREDENTIALS = (
    r"(?a)(?<=://)[^\s/@:]{0,200}:(?![0-9]{1,5}/)[^\s'\"]{0,500}(?=@)"
    r"|(?:(?<=http://)|(?<=https://))[^\s/@]{1,500}(?=@)"
    # The registry of an image, or a host of git, without a scheme; a tag may stand before a digest.
    r"|[^\s/@:'\"]{1,200}:[^\s/@'\"]{1,500}(?=@(?!sha[0-9]+:)[\w-])"
)


def escaped(text: str) -> str:
    """Return a text on one line, with an escape for each character that steers a terminal or cannot be encoded."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def masked(line: str) -> str:
    """Return a source line with one mark for each character that a terminal cannot show, so that columns stay."""
    marks = {"\t": " "}
    return "".join(character if character.isprintable() else marks.get(character, "\ufffd") for character in line)


def without_credentials(text: str) -> str:
    """Return a text with asterisks for the user and password in each URL, one for each character."""
    return re.sub(_CREDENTIALS, lambda match: "*" * len(match.group()), text) if "@" in text else text


def value_without_credentials(value: Any) -> Any:
    """Return a value of a document with `without_credentials` for each text in it, at any depth."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, Mapping):
        return {value_without_credentials(key): value_without_credentials(item) for key, item in value.items()}
    return [value_without_credentials(item) for item in value] if isinstance(value, list) else value


def file_name(name: str) -> str:
    r"""Return the name of a file on one line; bytes that are not UTF-8 become escapes such as \xff."""
    return escaped(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def cut(value: object) -> str:
    """Return a value of a document on one line, cut after LONGEST characters and without credentials."""
    text = without_credentials(str(value))
    return escaped(text[:LONGEST]) + ("…" if len(text) > LONGEST else "")


def quoted(value: object) -> str:
    """Return a value of a document in single quotes, on one line, cut after LONGEST characters."""
    return f"'{cut(value)}'"


def labels(given: Mapping[str, str]) -> str:
    """Return the labels of a node as an object of a sentence, such as `the labels pool=tls, zone=a`."""
    shown = ", ".join(f"{key}={value}" for key, value in sorted(given.items()))
    return f"the {inflected('label', len(given))} {shown}" if given else "no labels"


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as people write it: spec.driver.env[0].name."""
    text = ""
    for step in path:
        if isinstance(step, str) and re.fullmatch(r"[A-Za-z]\w*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{cut(step)}]"
    return text


def listed(names: Iterable[object], most: int | None = None) -> str:
    """Return names as a list: 'none', 'a', 'a and b', 'a, b and c'; with `most` 1, 'a and 2 more'."""
    texts = [str(name) for name in names]
    if most is not None and len(texts) > most:
        texts[most:] = [f"{len(texts) - most} more"]
    if len(texts) < 2:
        return texts[0] if texts else "none"
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: '1 node', '3 nodes'."""
    return f"{number} {inflected(noun, number)}"


def inflected(noun: str, number: int) -> str:
    """Return a noun that agrees with a number: 'node' for 1, otherwise 'nodes'."""
    return noun if number == 1 else f"{noun}s"


def nodes(names: Sequence[str]) -> str:
    """Return the number of nodes and the first five names, sorted: '3 nodes (a, b and c)'."""
    return f"{counted(len(names), 'node')} ({listed(sorted(names), most=5)})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table for people: aligned columns below a head, as kubectl prints them."""
    import tabulate  # noqa: PLC0415 - only people's tables need it

    drawn = tabulate.tabulate(rows, headers=head, tablefmt="plain", disable_numparse=True)
    return [line.rstrip() for line in drawn.splitlines()]


def nearest(word: object, known: Iterable[str]) -> str | None:
    """Return the known word that a misspelt one was probably meant to be; case does not count."""
    import difflib  # noqa: PLC0415 - only where a word is unknown

    wanted, lower = str(word)[:LONGEST].lower(), {name.lower(): name for name in sorted(known, reverse=True)}
    # Of w01 to w99, all are as near to w1 by their letters; people leave out zeros.
    same = [name for name in lower if _LEADING_ZEROS.sub("", name) == _LEADING_ZEROS.sub("", wanted)]
    near = same[-1:] or difflib.get_close_matches(wanted, lower, n=_TIES, cutoff=0.6)
    if not near:
        return None
    matcher = difflib.SequenceMatcher(b=wanted)

    def closeness(name: str) -> tuple[float, int]:
        matcher.set_seq1(name)
        pairs = zip(name, wanted, strict=False)
        return matcher.ratio(), sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    return lower[max(sorted(near), key=closeness)]


_LEADING_ZEROS = re.compile("(?<![0-9])0+(?=[0-9])")
_TIES = 20
"""Words of which the nearest is taken: several may be as near by their letters."""


def numbers(name: str) -> tuple[str, ...]:
    """Return the numbers in a name, without leading zeros: a node of another number is another one, and no slip."""
    return tuple(re.findall("[1-9][0-9]*", name))


def did_you_mean(word: object, known: Iterable[str], then: str = "") -> str:
    """Return "Did you mean 'east'?" where a known word is near a misspelt one, with the sentence `then` behind it."""
    near = nearest(word, known)
    return f"Did you mean '{near}'? {then}".rstrip() if near else then


def or_meant(word: object, known: Iterable[str]) -> str:
    """Return the end of a sentence on an unknown word: "; did you mean 'east'?", or "." if no known word is near."""
    near = nearest(word, known)
    return f"; did you mean '{near}'?" if near else "."
