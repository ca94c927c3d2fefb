"""Rules for what a recipe has the API server add to pods of other people."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from compiler import names, wording
from compiler.checks import frame, host_paths, lists
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import expressions
from compiler.formats import documents

Data = Mapping[str, Any]


@rule("admission-expression", "error")
def findings(source: documents.Document) -> Iterator[Diagnostic]:
    """What a recipe has the API server add to pods is of the fields that it may set, for its own resources."""
    spec = source.data["spec"]
    known = [*spec["match"].get("extended", ()), *_offers(spec)]
    every = list(lists.items(("spec",), spec, "admission"))
    named = [((*path, "name"), one["name"]) for path, one in every]
    yield from lists.twice(source, named, "The admission '{}' is there twice.")
    for path, one in every:
        yield from _asked(source, path, one, known)
        for at, text in lists.items(path, one, "conditions"):
            if expressions.names_variables(text):
                message, hint = "A condition names no variables.", "The API server judges it first: write it out."
                yield Diagnostic(span=source.span(*at), message=message, hint=hint)
        allowed = [*known, *one["resources"]]
        for at, text, sets in _expressions(path, one):
            if "${" in text:
                message, hint = "No reference stands here.", "One policy is for all values: write them out."
                yield Diagnostic(code="reference-syntax", span=source.span(*at), message=message, hint=hint)
            for found in expressions.read(text, sets=sets):
                faults = [found] if isinstance(found, expressions.Fault) else expressions.faults(found, allowed)
                for fault in faults:
                    yield Diagnostic(span=source.span(*at), message=fault.message, hint=fault.hint)
    yield from mounts(source)


def _asked(source: documents.Document, path: documents.Path, one: Data, known: Collection[str]) -> Iterator[Diagnostic]:
    """Yield the resources of an admission that no pod asks for, or that are not the recipe's."""
    for at, name in lists.items(path, one, "resources"):
        if "*" in name:
            message = f"'{name}' is no resource that a pod asks for: the API server compares whole names."
            yield Diagnostic(span=source.span(*at), message=message, hint="Name each resource.")
        elif not any(names.glob_matches(glob, name) for glob in known):
            message = f"'{name}' is no resource that the recipe offers, nor one of match.extended."
            hint = (
                wording.did_you_mean(name, [one for one in known if "*" not in one]) or "Offer it, or ask for another."
            )
            yield Diagnostic(code="recipe-reference", span=source.span(*at), message=message, hint=hint)


def _offers(spec: Data) -> Iterator[str]:
    """Yield the resources, or globs of them, that a recipe offers whatever the values are."""
    yield from (one["name"] for one in spec.get("devicePlugin", {}).get("resources", ()))
    for program in spec.get("programs", ()):
        yield from (text for text in program.get("offers", ()) if "${" not in text)


def _expressions(path: documents.Path, one: Data) -> Iterator[tuple[documents.Path, str, bool]]:
    for at, text in lists.items(path, one, "conditions"):
        yield at, text, False
    for at, variable in lists.items(path, one, "variables"):
        yield (*at, "expression"), variable["expression"], False
    for at, mutation in lists.items(path, one, "mutations"):
        yield (*at, "applyConfiguration"), mutation["applyConfiguration"], True


def mounts(source: documents.Document, kubelet: str = host_paths.KUBELET) -> Iterator[Diagnostic]:
    """Yield the paths of the node that pods get, and that hold what nobody gets, with a kubelet's folder."""
    for path, one in lists.items(("spec",), source.data["spec"], "admission"):
        for at, text, sets in _expressions(path, one):
            for found in expressions.read(text, sets=sets):
                if isinstance(found, expressions.Set) and found.field == "hostPath":
                    for refusal in frame.host_path(at, found.what, kubelet, of_program=False):
                        yield frame.finding(source, refusal)
