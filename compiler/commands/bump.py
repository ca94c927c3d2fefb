"""`kae bump`: change one version in a policy's file in place, so that a pull request shows one line."""

import argparse
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from compiler import cli, diagnostics, errors, names, pipeline, schema, wording
from compiler.checks import policy as policy_checks
from compiler.cli import findings
from compiler.fleet import definitions
from compiler.formats import decode, documents, edits
from compiler.project import atomic, document_files, package_data, project_file
from compiler.settings import Settings

_LISTS = {
    "wave": ("wave", ("rollout", "waves")),
    "mapping": ("mapping", ("kernelMappings",)),
    "frozen": ("frozen group", ("rollout", "frozen")),
}
"""The noun of the entries with versions of their own, and the end of their path, by option."""


def run(arguments: argparse.Namespace) -> int:
    if arguments.image is not None and arguments.device_plugin:
        cli.parser().error("--image and --device-plugin both choose a version.", "Leave one of them out.")
    settings = project_file.of(arguments)
    found, on_documents = _read(settings.policies, arguments.file)
    if diagnostics.has_errors(on_documents):
        return _wrong(arguments, on_documents)
    source, index = _policy(found, arguments.policy, settings.policies)
    recipe, judge = _recipe(settings, source.documents[index]), schema.Judge(package_data.schemas())
    policy, faults = _judged(source.documents[index], recipe, judge, settings)
    on_documents.extend(faults)
    if policy is None or diagnostics.has_errors(on_documents):
        return _wrong(arguments, on_documents)
    title, path = _part(arguments, policy)
    old = _value(policy.source, *path)
    if old != arguments.version:
        source = edits.written(source, index, path, arguments.version)
        on_documents.extend(_brought(policy, *_judged(source.documents[index], recipe, judge, settings)))
        if settings.has_errors(on_documents):
            return _wrong(arguments, on_documents)
        if not arguments.check:
            atomic.write_file(Path(source.name), source.text)
    line = source.documents[index].span(*path).line
    shown = old or _inherited(policy, arguments.image)
    result = {"file": source.name, "line": line, "path": wording.dotted(path), "old": shown, "new": arguments.version}
    change = f"is {old} already" if old == arguments.version else f"{shown or 'unset'} -> {arguments.version}"
    body = f"{source.name}:{line}: {arguments.policy} {title}: version {change}\n"
    findings.show(arguments, diagnostics.merged(on_documents), body, policy=arguments.policy, **result)
    return cli.DIFFERS if arguments.check and old != arguments.version else cli.FINE


def _wrong(arguments: argparse.Namespace, on_documents: Iterable[diagnostics.Diagnostic]) -> int:
    findings.show(arguments, diagnostics.merged(on_documents))
    return cli.WRONG


def _read(policies: str, wanted: str | None) -> tuple[list[edits.Source], list[diagnostics.Diagnostic]]:
    """Return the files in the folder of policies, or only the named one."""
    inputs, on_documents = document_files.find([policies])
    if wanted is not None:
        name = document_files.name_of(wanted)
        inputs = [item for item in inputs if item.name == name]
        on_documents = [finding for finding in on_documents if finding.span.file == wording.file_name(name)]
        if not inputs and not on_documents:
            raise errors.WorldError(
                f"'{wording.file_name(wanted)}' is no document file of {policies}/.",
                hint="Name a .yaml, .yml or .json file below it.",
            )
    found = []
    for item in inputs:
        content = document_files.read(item)
        read, faults = decode.decode(item.name, content)
        on_documents.extend(faults)
        if not diagnostics.has_errors(faults):
            found.append(edits.Source(name=item.name, text=content.decode(), documents=tuple(read)))
    return found, on_documents


def _policy(found: Iterable[edits.Source], wanted: str, policies: str) -> tuple[edits.Source, int]:
    """Return the one document of a policy. Raises RefusedError where there is none, or more than one."""
    known: dict[str, list[tuple[edits.Source, int]]] = {}
    for source in found:
        for index, document in enumerate(source.documents):
            name = _value(document, "metadata", "name")
            if _value(document, "kind") in names.POLICY_KINDS and isinstance(name, str):
                known.setdefault(name, []).append((source, index))
    if wanted not in known:
        hint = f"{policies}/ holds {wording.listed(sorted(known))}."
        hint = wording.did_you_mean(wanted, sorted(known), hint) if known else "`kae -C DIR` works in another folder."
        raise errors.RefusedError(f"there is no policy '{wanted}'.", hint=hint)
    matches = known[wanted]
    if len(matches) > 1:
        places = (source.documents[index].span("metadata", "name") for source, index in matches)
        positions = wording.listed(f"{place.file}:{place.line}" for place in places)
        is_divided = len({source.name for source, _ in matches}) > 1
        hint = "Choose a file with --file." if is_divided else "Give each document a file of its own."
        raise errors.RefusedError(f"policy '{wanted}' is written {len(matches)} times: {positions}.", hint=hint)
    return matches[0]


def _recipe(settings: Settings, document: documents.Document) -> documents.Reading:
    """Return the documents of a policy's recipe, which are all that its judge knows of the project."""
    name = _value(document, "spec", "recipe") if _value(document, "kind") == "DevicePolicy" else None
    inputs = document_files.find([settings.recipes])[0] if isinstance(name, str) else []
    own = (item for item in inputs if item.name.startswith(f"{settings.recipes}/{name}/"))
    return decode.every((item.name, functools.partial(document_files.read, item)) for item in own)


def _judged(
    document: documents.Document, recipe: documents.Reading, judge: schema.Judge, settings: Settings
) -> tuple[definitions.Policy | None, diagnostics.Findings]:
    """Return the policy in a document, None if it has mistakes, and the findings of its schema."""
    known, unread = recipe
    found = pipeline.judged((*known, document), judge, frozenset(), tuple(unread), settings)
    return next(iter(found.policies), None), found.findings


def _part(arguments: argparse.Namespace, policy: definitions.Policy) -> tuple[str, documents.Path]:
    """Return the selected part of a policy in words, and the path of its version."""
    _require_image(arguments.image, policy)
    of_image: documents.Path = ("images", arguments.image) if policy.written.names_images else ()
    words = f"image {arguments.image}" if of_image else ""
    for option, (title, end) in _LISTS.items():
        wanted = getattr(arguments, option)
        if wanted is None:
            continue
        path = (*policy.written.rollout, *end)
        known = [entry["name"] for entry in _value(policy.source, *path) or ()]
        if wanted not in known:
            field = wording.dotted(path)
            hint = wording.did_you_mean(wanted, known, f"{field} holds {wording.listed(known)}.")
            hint = hint if known else f"{field} has no entries."
            raise errors.RefusedError(f"policy '{arguments.policy}' has no {title} '{wanted}'.", hint=hint)
        return f"{title} {wanted} {words}".rstrip(), (*path, known.index(wanted), *of_image, "version")
    if of_image:
        return words, ("spec", *of_image, "version")
    if arguments.device_plugin:
        return "device plugin", ("spec", "devicePlugin", "version")
    return "driver", ("spec", "driver", "version")


def _require_image(wanted: str | None, policy: definitions.Policy) -> None:
    """Raise RefusedError for a name that no image of a DevicePolicy has, for none there, and for any of a KAEPolicy."""
    known, recipe = sorted(policy.written.images), policy.recipe
    if not policy.written.names_images:
        if wanted is None:
            return
        raise errors.RefusedError(
            f"policy '{policy.name}' is a KAEPolicy, whose images have no names.",
            hint="Leave --image out; --device-plugin is for the version of the device plugin.",
        )
    if wanted is None:
        raise errors.RefusedError(
            f"policy '{policy.name}' is of recipe '{recipe.name}', and each image of it has a version.",
            hint=f"Name one of {wording.listed(known)} by --image.",
        )
    if wanted not in known:
        hint = wording.did_you_mean(wanted, known, f"It has {wording.listed(known)}.")
        raise errors.RefusedError(f"recipe '{recipe.name}' has no image '{wanted}'.", hint=hint)


def _inherited(policy: definitions.Policy, image: str | None) -> str | None:
    """Return the version of an image that the whole policy has, its own or the recipe's; None without its name."""
    if image is None:
        return None
    if policy.driver is not None and image in policy.driver.images:
        return policy.driver.images[image]["version"]
    return policy.plugin.parts["version"] if policy.plugin is not None else None


def _value(document: documents.Document, *path: str | int) -> Any:
    """Return the value at a path; None where there is none."""
    return document.value(path) if document.has(path) else None


def _brought(
    before: definitions.Policy, after: definitions.Policy | None, found: Sequence[diagnostics.Diagnostic]
) -> Iterator[diagnostics.Diagnostic]:
    """Return the findings on the policy alone that it did not have before the edit; `found` are those of its schema."""
    if after is None or found:
        yield from found
        return
    known = {(fault.code, fault.message) for fault in policy_checks.findings(before)}
    for fault in policy_checks.findings(after):
        if (fault.code, fault.message) not in known:
            yield fault
