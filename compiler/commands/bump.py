"""`kae bump`: change one version in a policy's file in place, so that a pull request shows one line."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from compiler import cli, diagnostics, errors, schema, wording
from compiler.checks import policy as policy_checks
from compiler.cli import findings
from compiler.fleet import parse
from compiler.formats import decode, documents, edits
from compiler.project import atomic, document_files, package_data, project_file

_LISTS = {
    "wave": ("wave", ("spec", "driver", "rollout", "waves")),
    "mapping": ("mapping", ("spec", "driver", "kernelMappings")),
    "frozen": ("frozen group", ("spec", "driver", "rollout", "frozen")),
}
"""The noun and the path of the entries with a version of their own, by option."""


def run(arguments: argparse.Namespace) -> int:
    """Write the version, and print the old one."""
    policies = project_file.of(arguments).policies
    found, on_documents = _read(policies, arguments.file)
    if diagnostics.has_errors(on_documents):
        return _wrong(arguments, on_documents)
    file, source, index = _policy(found, arguments.policy, policies)
    judge = schema.Judge(package_data.schemas())
    on_documents.extend(judge.judge(source.documents[index], lists=False)[1])
    if diagnostics.has_errors(on_documents):
        return _wrong(arguments, on_documents)
    title, path = _part(arguments, source.documents[index].data)
    old = _value(source.documents[index].data, path)
    if old != arguments.version:
        before, source = source.documents[index], edits.written(source, index, path, arguments.version)
        on_documents.extend(_brought(before, source.documents[index], judge))
        if diagnostics.has_errors(findings.with_severities(arguments, on_documents)):
            return _wrong(arguments, on_documents)
        _write(file, source.text)
    line = source.documents[index].span(*path).line
    result = {"file": file.name, "line": line, "path": wording.dotted(path), "old": old, "new": arguments.version}
    change = f"is {old} already" if old == arguments.version else f"{old or 'unset'} -> {arguments.version}"
    body = f"{file.name}:{line}: {arguments.policy} {title}: version {change}\n"
    findings.show(arguments, diagnostics.merged(on_documents), body, policy=arguments.policy, **result)
    return cli.FINE


def _wrong(arguments: argparse.Namespace, on_documents: Iterable[diagnostics.Diagnostic]) -> int:
    findings.show(arguments, diagnostics.merged(on_documents))
    return cli.WRONG


_Read = tuple[document_files.Input, edits.Source]


def _read(policies: str, wanted: str | None) -> tuple[list[_Read], list[diagnostics.Diagnostic]]:
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
            source = edits.Source(name=item.name, text=content.decode(), documents=tuple(read))
            found.append((item, source))
    return found, on_documents


def _policy(found: Iterable[_Read], wanted: str, policies: str) -> tuple[document_files.Input, edits.Source, int]:
    """Return the one document of a policy. Raises RefusedError where there is none, or more than one."""
    known: dict[str, list[tuple[document_files.Input, edits.Source, int]]] = {}
    for item, source in found:
        for index, name in _policies(source.documents):
            known.setdefault(name, []).append((item, source, index))
    if wanted not in known:
        hint = _hint(wanted, sorted(known), f"{policies}/ holds") if known else "`kae -C DIR` works in another folder."
        raise errors.RefusedError(f"there is no policy '{wanted}'.", hint=hint)
    matches = known[wanted]
    if len(matches) > 1:
        positions = wording.listed(
            str(source.documents[index].span("metadata", "name")).rpartition(":")[0] for _, source, index in matches
        )
        is_divided = len({source.name for _, source, _ in matches}) > 1
        hint = "Choose a file with --file." if is_divided else "Give each document a file of its own."
        raise errors.RefusedError(f"policy '{wanted}' is written {len(matches)} times: {positions}.", hint=hint)
    return matches[0]


def _policies(read: Sequence[documents.Document]) -> Iterator[tuple[int, str]]:
    """Yield the documents that call themselves policies, with their names."""
    for index, document in enumerate(read):
        if isinstance(document.data, dict) and document.data.get("kind") == "KAEPolicy":
            name = _value(document.data, ("metadata", "name"))
            if isinstance(name, str):
                yield index, name


def _part(arguments: argparse.Namespace, data: Any) -> tuple[str, documents.Path]:
    """Return the selected part of a valid policy in words, and the path of its version."""
    for option, (title, path) in _LISTS.items():
        wanted = getattr(arguments, option)
        if wanted is None:
            continue
        known = [entry["name"] for entry in _value(data, path) or ()]
        if wanted not in known:
            field = wording.dotted(path)
            hint = _hint(wanted, known, f"{field} holds") if known else f"{field} has no entries."
            raise errors.RefusedError(f"policy '{arguments.policy}' has no {title} '{wanted}'.", hint=hint)
        return f"{title} {wanted}", (*path, known.index(wanted), "version")
    if arguments.device_plugin:
        return "device plugin", ("spec", "devicePlugin", "version")
    return "driver", ("spec", "driver", "version")


def _hint(wanted: str, known: Sequence[str], lead: str) -> str:
    return f"{wording.did_you_mean(wanted, known)} {lead} {wording.listed(known)}.".lstrip()


def _value(data: Any, path: documents.Path) -> Any:
    """Return the value at a path; None where there is none."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _brought(
    before: documents.Document, after: documents.Document, judge: schema.Judge
) -> Iterator[diagnostics.Diagnostic]:
    """Return the findings on the policy alone that it did not have before the edit."""
    _, found = judge.judge(after, lists=False)
    if found:
        yield from found
        return
    known = {(fault.code, fault.message) for fault in policy_checks.findings(parse.policy_of(before))}
    for fault in policy_checks.findings(parse.policy_of(after)):
        if (fault.code, fault.message) not in known:
            yield fault


def _write(file: document_files.Input, text: str) -> None:
    """Replace the text of the file."""
    try:
        atomic.write(file.path, text)
    except OSError as error:
        raise errors.WorldError(f"'{file.name}' cannot be written: {error.strerror}.") from error
