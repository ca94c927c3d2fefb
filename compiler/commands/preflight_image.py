"""`kae preflight --image`: whether an image holds the driver that its policies put on nodes."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compiler import cli, errors, wording
from compiler.checks import driver_images
from compiler.cli import findings, piped
from compiler.commands import image_labels
from compiler.planning import driver_image, images
from compiler.project import project_file
from compiler.project.by_cluster import planned

Uses = Sequence[tuple[str, driver_image.Use]]
"""The pools that take an image, each with its cluster's name."""


def run(arguments: argparse.Namespace) -> int:
    """Print where an image would be used; return 1 where it lacks something there, or no policy takes it."""
    image, content = _image(arguments)
    run = planned.of_settings(
        project_file.of(arguments),
        arguments.cluster,
        lambda view, _: (
            [(view.cluster.name, use) for use in driver_image.uses(view, image)],
            driver_image.recipes_of(view, image),
        ),
    )
    # Warnings are about the nodes of today, and the question is about the image.
    found = findings.without_warnings(arguments, run.findings)
    if findings.concluded(arguments, found):
        findings.show(arguments, found)
        return cli.WRONG
    used = [use for uses, _ in run.answers for use in uses]
    recipes = sorted({recipe for _, others in run.answers for recipe in others})
    if not used and recipes:
        raise errors.RefusedError(
            f"'{wording.escaped(image)}' is an image of recipe '{recipes[0]}', and only images of KAE's driver have "
            "labels that tell their kernels.",
            hint="`kae preflight --kernel VERSION` lists the images that a kernel needs.",
        )
    if not used:
        raise errors.RefusedError(
            f"no policy installs a driver from '{wording.escaped(image)}'.",
            hint="Name it as output/CLUSTER/images.txt does; an archive has the name that it was saved by.",
        )
    found = findings.with_severities(
        arguments, [item for name, use in used for item in driver_images.findings(image, content, name, use)]
    )
    findings.show(arguments, found, "".join(lines(image, content, used)), **data(image, content, used))
    return findings.exit_code(arguments, found)


def _image(arguments: argparse.Namespace) -> tuple[str, driver_image.Content]:
    """Return the name and the content of the image that the call names; raise RefusedError without labels."""
    image = arguments.image
    if Path(image).is_file():
        labelled = image_labels.of_archive(Path(image))
        if len(labelled.names) != 1:
            said = f"has the names {wording.listed(labelled.names)}" if labelled.names else "has no name"
            raise errors.RefusedError(
                f"the image in {wording.file_name(image)} {said}.",
                hint="Save it by the one name that policies give it.",
            )
        (image,), labels = labelled.names, labelled.labels
    else:
        hint = f"Run: skopeo inspect docker://{wording.escaped(image)} | kae preflight --image {wording.escaped(image)}"
        if sys.stdin is not None and sys.stdin.isatty():
            raise errors.RefusedError(f"{wording.file_name(image)} is no file, and nothing is piped.", hint=hint)
        inspected = image_labels.of_inspection(piped.content(hint)[1])
        known = sorted({images.name(name) for name in inspected.names})
        if known and images.name(image) not in known:
            other = wording.listed(map(wording.escaped, known), most=1)
            raise errors.RefusedError(
                f"standard input is about {other}, and not about '{wording.escaped(image)}'.", hint=hint
            )
        labels = inspected.labels
    content = driver_image.content(labels)
    if content is None:
        raise errors.RefusedError(
            f"the image '{wording.escaped(image)}' has no label {driver_image.LABEL}version.",
            hint="Build it as docs/driver-image.md says.",
        )
    return image, content


def lines(image: str, content: driver_image.Content, used: Uses) -> Iterator[str]:
    """Yield the lines of the answer for people."""
    yield f"{wording.escaped(image)}\n"
    yield f"  driver   {wording.escaped(content.version)}\n"
    yield f"  sources  {wording.escaped(', '.join(sorted(content.sources)) or 'none')}\n"
    yield f"  kernels  {', '.join(sorted(content.kernels)) or 'none'}\n"
    for cluster, use in used:
        counts = wording.counted(sum(use.nodes.values()), "node")
        yield f"  cluster {cluster}, policy {use.policy.name}, pool {use.pool.name}: {counts} by {use.source}\n"


def data(image: str, content: driver_image.Content, used: Uses) -> dict[str, Any]:
    """Return the answer for programs."""
    return {
        "image": image,
        "driver": content.version,
        "sources": sorted(content.sources),
        "kernels": sorted(content.kernels),
        "uses": [
            {
                "cluster": cluster,
                "policy": use.policy.name,
                "pool": use.pool.name,
                "source": use.source,
                "nodes": dict(use.nodes),
            }
            for cluster, use in used
        ],
    }
