"""`kae bump`: change one version in a policy's file in place, so that a pull request shows one line."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler import cli, diagnostics, wording
from compiler.checks import policy as policy_checks
from compiler.cli import findings
from compiler.commands import policy_edit
from compiler.fleet import definitions
from compiler.formats import documents, edits
from compiler.project import atomic


def run(arguments: argparse.Namespace) -> int:
    if arguments.image is not None and arguments.device_plugin:
        cli.parser().error("--image and --device-plugin both choose a version.", "Leave one of them out.")
    target = policy_edit.chosen(arguments)
    policy, source, on_documents = target.policy, target.source, [*target.findings]
    title, path = _part(arguments, policy)
    old = policy_edit.value(policy.source, *path)
    if old != arguments.version:
        source = edits.written(source, target.at, path, arguments.version)
        on_documents.extend(_brought(policy, *target.judged(source)))
        if target.settings.has_errors(on_documents):
            findings.show(arguments, diagnostics.merged(on_documents))
            return cli.WRONG
        if not arguments.check:
            atomic.write_file(Path(source.name), source.text)
    line = source.documents[target.at].span(*path).line
    shown = old or _inherited(policy, arguments.image)
    result = {"file": source.name, "line": line, "path": wording.dotted(path), "old": shown, "new": arguments.version}
    change = f"is {old} already" if old == arguments.version else f"{shown or 'unset'} -> {arguments.version}"
    body = f"{source.name}:{line}: {arguments.policy} {title}: version {change}\n"
    findings.show(arguments, diagnostics.merged(on_documents), body, policy=arguments.policy, **result)
    return cli.DIFFERS if arguments.check and shown != arguments.version else cli.FINE


def _part(arguments: argparse.Namespace, policy: definitions.Policy) -> tuple[str, documents.Path]:
    """Return the selected part of a policy in words, and the path of its version."""
    policy_edit.require_image(arguments.image, policy)
    of_image: documents.Path = ("images", arguments.image) if policy.written.names_images else ()
    words = f"image {arguments.image}" if of_image else ""
    for option, title in policy_edit.NOUNS.items():
        wanted = getattr(arguments, option)
        if wanted is not None:
            path = policy_edit.entry(policy, option, wanted).path
            return f"{title} {wanted} {words}".rstrip(), (*path, *of_image, "version")
    if of_image:
        return words, ("spec", *of_image, "version")
    if arguments.device_plugin:
        return "device plugin", ("spec", "devicePlugin", "version")
    return "driver", ("spec", "driver", "version")


def _inherited(policy: definitions.Policy, image: str | None) -> str | None:
    """Return the version of an image that the whole policy has, its own or the recipe's; None without its name."""
    if image is None:
        return None
    if policy.driver is not None and image in policy.driver.images:
        return policy.driver.images[image]["version"]
    return policy.plugin.parts["version"] if policy.plugin is not None else None


def _brought(
    before: definitions.Policy, after: definitions.Policy | None, found: Sequence[diagnostics.Diagnostic]
) -> Iterator[diagnostics.Diagnostic]:
    """Return the findings on the policy alone that it did not have before the edit; `found` are those of its schema."""
    if after is None or found:
        yield from found
        return
    yield from policy_edit.added(policy_checks.findings(before), policy_checks.findings(after))
