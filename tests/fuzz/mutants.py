"""Document number n of a seed: which one is mutated, how, and the project around it."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.fuzz import corpus, structure, text

SORTS = NEAR, FAR, TEXT = ("near", "far", "text")
"""Along the schemas, against them, and without regard to any."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A project with one mutated document."""

    number: int
    origin: str
    sort: str
    files: Mapping[str, bytes]


def mutant(seed: int, number: int) -> Mutant:
    """The mutant of this number; the same for ever while the corpus and this package stay as they are."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - repeatable is what it has to be
    found = chance.choice(corpus.seeds())
    sort = chance.choices((NEAR, FAR, TEXT), (45, 35, 20))[0]
    file = found.files[found.mutated]
    content = text.mutated(chance, file) if sort == TEXT else _structural(chance, found, sort)
    return Mutant(number, found.name, sort, {**found.files, _name(chance, found.mutated): content})


def _name(chance: random.Random, name: str) -> str:
    """The file's name; now and then another, so that the document stands there twice."""
    if chance.random() > 0.02:
        return name
    stem, _, ending = name.rpartition(".")
    return chance.choice((f"{stem}.yml", f"{stem}-2.{ending}", f"policies/a/{name}", f"inventory/{stem}.json"))


def _structural(chance: random.Random, found: corpus.Seed, sort: str) -> bytes:
    documents = found.data()
    act = structure.near if sort == NEAR else structure.far
    at = chance.randrange(len(documents))
    documents[at] = act(chance, documents[at])
    if chance.random() < 0.08 and found.mutated.endswith(("yaml", "yml")):
        more = chance.choice(corpus.seeds()).data()
        documents[chance.randint(0, len(documents)) :] = more if chance.random() < 0.5 else [act(chance, *more[:1])]
    content = _written(chance, documents, found.mutated)
    return text.duplicated_key(chance, content) if sort == FAR and chance.random() < 0.05 else content


def _written(chance: random.Random, documents: list[Any], name: str) -> bytes:
    """Documents as a file, in one of the forms that people and programs write."""
    form = chance.random()
    if name.endswith(".json") or (form < 0.1 and len(documents) == 1) or _has_half_characters(documents):
        parts = [json.dumps(item, indent=chance.choice((None, 2)), ensure_ascii=form < 0.5) for item in documents]
        return "\n".join(parts).encode("utf-8", "surrogatepass")
    dumped: str = yaml.dump_all(
        documents,
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        explicit_start=len(documents) > 1 or form < 0.3,
        allow_unicode=form < 0.7,
        default_flow_style=chance.choice((False, False, False, None, True)),
        width=chance.choice((80, 1000)),
    )
    return dumped.encode()


def _has_half_characters(documents: list[Any]) -> bool:
    """Return whether documents hold an unpaired surrogate, which libyaml refuses to write."""
    return "\\ud800" in repr(documents)
