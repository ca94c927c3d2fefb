"""What the commands that edit one policy have in common: they find it, say what `kae diff` says of the edit, write."""

import argparse
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler import cli, diagnostics, errors, names, pipeline, schema, wording
from compiler.cli import findings
from compiler.commands import diff
from compiler.fleet import assignment, definitions, selectors
from compiler.formats import decode, documents, edits
from compiler.planning import loaded, plan, pools
from compiler.project import atomic, comparison, document_files, git, load, package_data, project_file
from compiler.project.by_cluster import planned
from compiler.settings import Settings
from compiler.views.diff import data as diff_data
from compiler.views.diff import risk_groups
from compiler.views.diff import text as diff_text


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The policy that a call names, in its file."""

    source: edits.Source
    at: int
    """Of the document in the file."""
    policy: definitions.Policy
    recipe: documents.Reading
    settings: Settings
    findings: diagnostics.Findings
    """On the documents that were read, none of them an error."""

    def judged(self, source: edits.Source) -> tuple[definitions.Policy | None, diagnostics.Findings]:
        """Return the policy as the file would have it, None if it has mistakes, and the findings of its schema."""
        return _judged(source.documents[self.at], self.recipe, self.settings)

    def line(self, source: edits.Source, *path: str | int) -> str:
        """Return the file and the line of a path, for the beginning of an answer."""
        return f"{source.name}:{source.documents[self.at].span(*path).line}"

    @functools.cached_property
    def head(self) -> tuple[bytes | None, Any]:
        """The content of the file in the last commit, and the data of the policy there; None where it has none.

        Raises WorldError without git.
        """
        content = content_at_head(self.source.name)
        read = decode.decode(self.source.name, content)[0] if content is not None else []
        own = (each.data for each in read if value(each, "metadata", "name") == self.policy.name)
        return content, next(own, None)

    def compiled(self, edited: Mapping[str, bytes | None]) -> planned.Run[list["Placed"]]:
        """Return the plans of the policy's clusters, with these files as they will be, and the findings of a compile.

        Their answers are the nodes of the policy. Raises WorldError.
        """
        project = load.project(self.settings, edited=edited)
        own = self.policy.source.span("metadata", "name")

        def placed(view: plan.Plan, _: diagnostics.Findings) -> list[Placed]:
            return [
                (view.cluster, decision, decision.division)
                for decision in view.decisions
                if decision.division and decision.division.policy.source.span("metadata", "name") == own
            ]

        clusters = [one for one in project.fleet.clusters if assignment.in_cluster([self.policy], one.name)]
        return planned.of_project(project, clusters, placed)

    @functools.cached_property
    def before(self) -> planned.Run[list["Placed"]]:
        """The same without the edit."""
        return self.compiled({})


def chosen(arguments: argparse.Namespace) -> Chosen:
    """Return the policy that a call names. Raises WrongError for mistakes in it, and RefusedError without just one."""
    settings = project_file.of(arguments)
    found, on_documents = _read(settings.policies, arguments.file)
    _require_sound(arguments, on_documents)
    source, index = _policy(found, arguments.policy, settings.policies)
    recipe = _recipe(settings, source.documents[index])
    policy, faults = _judged(source.documents[index], recipe, settings)
    on_documents.extend(faults)
    _require_sound(arguments, on_documents, is_policy=policy is not None)
    assert policy is not None  # noqa: S101 - for mypy, as WrongError is raised otherwise
    return Chosen(source, index, policy, recipe, settings, diagnostics.merged(on_documents))


def _require_sound(
    arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic], *, is_policy: bool = True
) -> None:
    if diagnostics.has_errors(found := list(found)) or not is_policy:
        findings.show(arguments, diagnostics.merged(found))
        raise cli.WrongError


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
            name = value(document, "metadata", "name")
            if value(document, "kind") in names.POLICY_KINDS and isinstance(name, str):
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
    name = value(document, "spec", "recipe") if value(document, "kind") == "DevicePolicy" else None
    inputs = document_files.find([settings.recipes])[0] if isinstance(name, str) else []
    own = (item for item in inputs if item.name.startswith(f"{settings.recipes}/{name}/"))
    return decode.every((item.name, functools.partial(document_files.read, item)) for item in own)


def _judged(
    document: documents.Document, recipe: documents.Reading, settings: Settings
) -> tuple[definitions.Policy | None, diagnostics.Findings]:
    """Return the policy in a document, None if it has mistakes, and the findings of its schema."""
    known, unread = recipe
    judge = schema.Judge(package_data.schemas())
    found = pipeline.judged((*known, document), judge, frozenset(), tuple(unread), settings)
    return next(iter(found.policies), None), found.findings


def content_at_head(name: str) -> bytes | None:
    """Return the content of a file in the last commit; None without it. Raises WorldError."""
    git.answer("rev-parse", "--git-dir")
    with git.Objects() as objects:
        return objects.content(f"HEAD:./{name}")


def value(document: documents.Document, *path: str | int) -> Any:
    """Return the value at a path; None where there is none."""
    return document.value(path) if document.has(path) else None


NOUNS = {"wave": "wave", "mapping": "mapping", "frozen": "frozen group"}
"""The words for parts that a policy has by name, by the options that name them."""
_LISTS: Mapping[str, documents.Path] = {
    "wave": ("rollout", "waves"),
    "mapping": ("kernelMappings",),
    "frozen": ("rollout", "frozen"),
}


def entry(policy: definitions.Policy, sort: str, name: str) -> definitions.Declared:
    """Return a wave, a mapping or a frozen group of a policy. Raises RefusedError where it has none of this name."""
    noun, groups = NOUNS[sort], [group for group in policy.groups if group.sort == sort]
    every: Sequence[definitions.Declared] = policy.mappings if sort == "mapping" else groups
    known = {one.name: one for one in every}
    if name not in known:
        field = wording.dotted((*policy.written.rollout, *_LISTS[sort]))
        hint = f"{field} holds {wording.listed(known)}." if known else f"{field} has no entries."
        raise errors.RefusedError(
            f"policy '{policy.name}' has no {noun} '{name}'.", hint=wording.did_you_mean(name, known, hint)
        )
    return known[name]


def require_new(policy: definitions.Policy, name: str) -> None:
    """Raise RefusedError for a name that a wave or a frozen group of a policy has."""
    for group in policy.groups:
        if group.name == name:
            place = policy.source.span(*group.path, "name")
            noun = "frozen group" if group.is_frozen else "wave"
            message = f"policy '{policy.name}' has a {noun} '{name}' already: {place.file}:{place.line}."
            raise errors.RefusedError(message, hint="Choose another name.")


def require_pools(policy: definitions.Policy) -> None:
    """Raise RefusedError for a policy whose nodes cannot have different drivers or programs."""
    if not policy.has_pools:
        message = f"policy '{policy.name}' brings nothing that a part of its nodes may have another version of."
        raise errors.RefusedError(message, hint="Waves and frozen groups are for a driver that kae installs.")


def members(arguments: argparse.Namespace, target: Chosen) -> dict[str, Any]:
    """Return the fields of a wave or a frozen group that choose its nodes, as the options say.

    Nodes by name are those of the clusters that have them: in others, a first group renames the DaemonSets in vain.
    """
    found: dict[str, Any] = {}
    if arguments.nodes:
        found["nodes"] = [*dict.fromkeys(arguments.nodes)]
    if arguments.selector is not None:
        found["inventorySelector"] = _selector(arguments.selector)
    if arguments.clusters:
        found["clusters"] = [*dict.fromkeys(arguments.clusters)]
    elif arguments.nodes:
        every = placed(arguments, target)
        known = {cluster.name for cluster, decision, _ in every if not {*arguments.nodes}.isdisjoint(decision.names)}
        if known and known != {cluster.name for cluster, _, _ in every}:
            found["clusters"] = sorted(known)
    return found


def _selector(text: str) -> dict[str, Any]:
    """Return a selector in kubectl's syntax as documents have it."""
    labels, expressions = dict[str, str](), list[dict[str, Any]]()
    for one in selectors.parse(text):
        if one.operator == "In" and len(one.values) == 1 and one.key not in labels:
            labels[one.key] = one.values[0]
        else:
            values = {"values": [*one.values]} if one.values else {}
            expressions.append({"key": one.key, "operator": one.operator, **values})
    given = {"matchLabels": labels, "matchExpressions": expressions}
    return {field: each for field, each in given.items() if each}


def require_image(wanted: str | None, policy: definitions.Policy) -> None:
    """Raise RefusedError for a name that no image of a DevicePolicy has, for none there, and for any of a KAEPolicy."""
    known, recipe = sorted(policy.written.images), policy.recipe
    if not policy.written.names_images:
        if wanted is None:
            return
        raise errors.RefusedError(
            f"policy '{policy.name}' is a KAEPolicy, whose images have no names.",
            hint="Leave --image out; `kae bump --device-plugin` is for the version of the device plugin.",
        )
    if wanted is None:
        raise errors.RefusedError(
            f"policy '{policy.name}' is of recipe '{recipe.name}', and each image of it has a version.",
            hint=f"Name one of {wording.listed(known)} by --image.",
        )
    if wanted not in known:
        hint = wording.did_you_mean(wanted, known, f"It has {wording.listed(known)}.")
        raise errors.RefusedError(f"recipe '{recipe.name}' has no image '{wanted}'.", hint=hint)


def version_of(arguments: argparse.Namespace, policy: definitions.Policy) -> "Leaves":
    """Return the version that --version and --image give a wave or a frozen group. Raises RefusedError for no image."""
    if arguments.version is None:
        if arguments.image is not None:
            cli.parser().error("--image chooses a version.", "Give --version, too.")
        return {}
    require_image(arguments.image, policy)
    name = arguments.image or (policy.driver.counting if policy.driver else "")
    if name not in policy.written.overrides:
        message = f"no part of the nodes of policy '{policy.name}' may have another version of '{name}'."
        raise errors.RefusedError(message, hint="Leave --version out.")
    return {(*policy.written.overrides[name], "version"): arguments.version}


Leaves = Mapping[documents.Path, Any]
"""What a mapping, a wave or a frozen group has instead, by the path below it, and below what holds `rollout`."""


def overrides(policy: definitions.Policy, group: definitions.Declared | None) -> Leaves:
    """Return what a mapping, a wave or a frozen group has instead; nothing for None."""
    if group is None:
        return {}
    written, own = policy.written, group.overrides
    paths: list[documents.Path] = [(*written.overrides[name], part) for name in own.images for part in own.images[name]]
    paths += [(*written.below, field) for field in ("source", "state", "modules") if getattr(own, field) is not None]
    paths += [("values", name) for name in own.values]
    return {path: policy.source.value((*group.path, *path)) for path in paths}


def nested(leaves: Leaves) -> dict[str, Any]:
    """Return leaves as the fields of an entry."""
    found: dict[str, Any] = {}
    for path, each in leaves.items():
        inside = found
        for step in path[:-1]:
            inside = inside.setdefault(str(step), {})
        inside[str(path[-1])] = each
    return found


def text_of(leaves: Leaves) -> str:
    """Return leaves for people: version 2.3.0, images.modules.version 8.2."""
    return ", ".join(f"{wording.dotted(path)} {_short(each)}" for path, each in leaves.items())


def _short(each: Any) -> str:
    return wording.cut(each if isinstance(each, str) and each else json.dumps(each))


Placed = tuple[definitions.Cluster, plan.Decision, pools.Division]
"""Nodes of a policy that are decided alike, in their cluster."""


def placed(arguments: argparse.Namespace, target: Chosen) -> list[Placed]:
    """Return the nodes of a policy in all clusters. Raises WrongError for mistakes in what it is planned from."""
    findings.require_fine(arguments, findings.without_warnings(arguments, target.before.findings))
    return [each for answer in target.before.answers for each in answer]


def known_drivers(every: Iterable[Placed]) -> Iterator[tuple[str, str, loaded.Loaded | None]]:
    """Yield the cluster and the name of each node, and what its labels say of its driver; None where none does."""
    for cluster, decision, _ in every:
        for own in loaded.apart([decision]):
            yield from ((cluster.name, name, loaded.of(own)) for name in own.names)


def added(
    before: Iterable[diagnostics.Diagnostic], after: Iterable[diagnostics.Diagnostic]
) -> Iterator[diagnostics.Diagnostic]:
    """Yield the findings after an edit that were not there before it."""
    known = {(item.code, item.message) for item in before}
    yield from (item for item in after if (item.code, item.message) not in known)


def finish(
    arguments: argparse.Namespace,
    target: Chosen,
    source: edits.Source | None,
    said: str,
    then: str = "",
    **result: Any,
) -> int:
    """Say an edit, what `kae diff` would say of it, and what is next; write it, unless the call says --check.

    Without `source` the file goes, as the policy is all that it holds. With --check the exit code is 4 for an edit
    that would be written. Nothing is written where the project would not compile, or where a risk of the change is an
    error that the call does not accept: the exit code is 1 then.
    """
    name = target.source.name
    edited = {name: None if source is None else source.text.encode()}
    found = comparison.of_edit(target.settings, edited)
    accepted, risks = diff.judged(arguments, found)
    faults = [item for fault in found.faults if fault.side == "to" for item in fault.findings]
    brought = () if faults else added(target.before.findings, target.compiled(edited).findings)
    every = diagnostics.merged([*target.findings, *risks, *faults, *brought])
    is_wrong = bool(faults) or findings.concluded(arguments, every)
    is_written = not is_wrong and not arguments.check
    if is_written:
        _write(target, source)
    lines = [] if faults else [said, "", *diff_text.lines(found, risk_groups.groups(accepted))]
    lines += [] if is_wrong or not then else ["", f"Next: {then}"]
    answer = {"policy": arguments.policy, "file": name, **result, "written": is_written, "next": then or None}
    difference = diff_data.data(found, accepted) if arguments.shape in ("json", "yaml") else None
    findings.show(arguments, every, "".join(f"{line}\n" for line in lines), **answer, diff=difference)
    findings.tell_unused(arguments.accept, diagnostics.RISKS, found.risks)
    return cli.WRONG if is_wrong else cli.DIFFERS if arguments.check else cli.FINE


def unchanged(arguments: argparse.Namespace, target: Chosen, said: str) -> int:
    """Say that nothing is to be written."""
    answer = {"policy": arguments.policy, "file": target.source.name, "written": False, "next": None, "diff": None}
    return findings.show(arguments, target.findings, f"{said}\n", **answer)


def _write(target: Chosen, source: edits.Source | None) -> None:
    """Write the file of a policy, or delete it. Raises WorldError."""
    path = Path(target.source.name)
    if source is not None:
        atomic.write_file(path, source.text)
        return
    atomic.require_file(path)
    try:
        path.unlink()
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be deleted: {error.strerror}.") from error
