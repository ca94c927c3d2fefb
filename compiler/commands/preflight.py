"""`kae preflight`: the policies and images that would serve a kernel that no node runs yet.

With --image, whether an image holds the driver that its policies put on nodes.
"""

import argparse
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler import cli, errors, names, recipes, wording
from compiler.checks import driver_images
from compiler.cli import findings
from compiler.planning import image_matrix, images, plan, preflight
from compiler.project import project_file
from compiler.project.by_cluster import planned, workers
from compiler.views import kernels, plan_text

_Answered = tuple[str, Sequence[tuple[recipes.Recipe, Sequence[preflight.Answer]]]]
"""A cluster with the answers of its policies, by recipe."""
_Uses = Sequence[tuple[str, image_matrix.Use]]
"""The pools that take an image, each with its cluster's name."""
_Labelled = tuple[Sequence[str], Mapping[str, str]]
"""An image's names, where they are known, and its labels."""

_BYTES = 4 << 20
"""The most that a registry must take of a manifest: https://github.com/opencontainers/distribution-spec."""


def run(arguments: argparse.Namespace) -> int:
    """Print what each policy would do for the kernel; return 1 where none would serve it."""
    if arguments.kernel is None and arguments.os is not None:
        cli.parser().error("--os is about --kernel.", "Leave it out: images and lists of kernels name no system.")
    if arguments.image is not None:
        return _of_image(arguments)
    if arguments.kernels is not None:
        return _of_list(arguments, _listed(arguments.kernels))
    run = planned.of_settings(
        project_file.of(arguments),
        arguments.cluster,
        lambda view, _: _answers(view, arguments.kernel),
        workers.Crew(),
    )
    # Warnings are about the nodes of today, and the question is about a kernel that none runs.
    found = findings.without_warnings(arguments, run.findings)
    findings.require_fine(arguments, found)
    every = [(recipe, answer) for _, own in run.answers for recipe, answers in own for answer in answers]
    served = any(answer.is_served for _, answer in every)
    remarks = list(_remarks(arguments, every)) if served else []
    end = remarks if served else ["No policy would serve a node with this kernel."]
    body = (f"{line}\n" for line in (*_lines(arguments, run.answers), *end))
    data: dict[str, Any] = {"kernel": arguments.kernel, "os": arguments.os, "served": served, "remarks": remarks}
    findings.show(arguments, found, body, **data, clusters=list(map(_cluster, run.answers)))
    return cli.FINE if served else cli.WRONG


def _of_list(arguments: argparse.Namespace, wanted: Sequence[str]) -> int:
    """Print the image of each kernel to come, by policy and pool; return 1 where no policy would serve one."""
    run = planned.of_settings(
        project_file.of(arguments), arguments.cluster, lambda view, _: [*kernels.of_plan(view, wanted)], workers.Crew()
    )
    found = findings.without_warnings(arguments, run.findings)
    findings.require_fine(arguments, found)
    every = [item for answered in run.answers for item in answered]
    served = {kernel for kernel, answers, _ in every if any(answer.is_served for _, answer in answers)}
    rows = kernels.settled([row for kernel in wanted for one, _, own in every if one == kernel for row in own])
    unserved = [kernel for kernel in wanted if kernel not in served]
    remarks = [f"No policy would serve a node with the kernel '{kernel}'." for kernel in unserved]
    for kernel in wanted:
        offers = [
            (recipe, offer) for one, own, _ in every if one == kernel for recipe, item in own for offer in item.offers
        ]
        remarks += _unsupported(offers, kernel)
    body = (f"{line}\n" for line in (*kernels.lines(rows), *remarks))
    result: dict[str, Any] = {
        "kernels": [*wanted],
        "unserved": unserved,
        "remarks": remarks,
        "images": kernels.data(rows),
        "matrix": kernels.matrix(rows),
    }
    findings.show(arguments, found, body, **result)
    return cli.WRONG if unserved else cli.FINE


def _listed(name: str) -> Sequence[str]:
    """Return the kernels of a file or of standard input, a line each. Raises WorldError."""
    hint = "Write a kernel a line, as `uname -r` prints it."
    try:
        text = cli.piped(hint)[1].decode("utf-8-sig") if name == "-" else Path(name).read_text("utf-8-sig")
    except OSError as error:
        raise errors.WorldError(f"{wording.file_name(name)} cannot be read: {error.strerror}.", hint=hint) from error
    except UnicodeDecodeError as error:
        raise errors.RefusedError(f"{wording.file_name(name)} is not UTF-8.", hint=hint) from error
    found = [line.partition("#")[0].strip() for line in text.splitlines()]
    for number, kernel in enumerate(found, 1):
        if kernel and (len(kernel) > names.KERNEL_LENGTH or not re.fullmatch(names.KERNEL_PATTERN, kernel)):
            place = f"{wording.file_name(name)}:{number}"
            raise errors.RefusedError(
                f"{place}: '{wording.escaped(kernel)}' is not a kernel's full version.", hint=hint
            )
    if not any(found):
        raise errors.RefusedError(f"{wording.file_name(name)} has no kernel.", hint=hint)
    return [*dict.fromkeys(filter(None, found))]


def _answers(view: plan.Plan, kernel: str) -> _Answered:
    spec = view.cluster.spec
    return view.cluster.name, [
        (each.recipe, [one for division in each.divisions for one in preflight.answers(division, kernel, spec)])
        for each in view.recipes
    ]


def _lines(arguments: argparse.Namespace, answered: Sequence[_Answered]) -> Iterator[str]:
    yield f"kernel {arguments.kernel}" + (f", {arguments.os}" if arguments.os else "")
    for cluster, by_recipe in answered:
        for recipe, answers in by_recipe:
            yield plan_text.title(cluster, recipe)
            if not answers and len(by_recipe) == 1:
                yield "  no policy holds here"
            for answer in answers:
                yield f"  {'yes' if answer.is_served else 'no ':3}  {answer.policy}: {answer.reason}"
                for offer in answer.offers:
                    images = ", ".join(f"{name} {image}" for name, image in offer.images) or offer.image
                    said = f"{images} ({offer.source})" if offer.state == "Present" else "the driver is removed"
                    yield f"       {offer.pool}: {said}"


def _remarks(
    arguments: argparse.Namespace, answered: Sequence[tuple[recipes.Recipe, preflight.Answer]]
) -> Iterator[str]:
    """Yield what to check before the first node boots the kernel."""
    every = [(recipe, offer) for recipe, answer in answered for offer in answer.offers]
    for image in sorted({image for _, offer in every for image in offer.modules}):
        yield f"{image} has to hold the modules, below /opt/lib/modules/{arguments.kernel}/."
    for image in sorted({image for _, offer in every for image in offer.named}):
        yield f"{image} has to be there: it is named after the kernel."
    yield from _unsupported(every, arguments.kernel, arguments.os)


def _unsupported(
    every: Sequence[tuple[recipes.Recipe, preflight.Offer]], kernel: str, system: str | None = None
) -> Iterator[str]:
    """Yield whose driver is not known to support a kernel or a system, of those that bring one."""
    brought = {recipe.name: recipe for recipe, offer in every if offer.source != "inTree"}
    for recipe in brought.values():
        support, whose = recipe.support, f"{recipe.words.software}'s driver is not known to support"
        if support and system and not support.has_system(system):
            yield f"{whose} '{system}'."
        if support and not support.has_kernel(kernel):
            yield f"{whose} the kernel '{kernel}'."


def _cluster(answered: _Answered) -> dict[str, Any]:
    """Return the answers of a cluster for programs: those of the built-in recipe are its own."""
    name, ((_, own), *others) = answered
    stacks = [{"recipe": recipe.name, "policies": list(map(_answer, answers))} for recipe, answers in others]
    return {"name": name, "policies": list(map(_answer, own)), **({"stacks": stacks} if stacks else {})}


def _answer(answer: preflight.Answer) -> dict[str, Any]:
    return {
        "policy": answer.policy,
        "served": answer.is_served,
        "mapping": answer.mapping,
        "reason": answer.reason,
        "pools": [
            {
                "pool": offer.pool,
                **({"images": dict(offer.images)} if offer.images else {"image": offer.image}),
                "source": offer.source,
                "state": offer.state,
            }
            for offer in answer.offers
        ],
    }


def _of_image(arguments: argparse.Namespace) -> int:
    """Print where an image would be used; return 1 where it lacks something there, or no policy takes it."""
    image, content = _image(arguments)
    run = planned.of_settings(
        project_file.of(arguments),
        arguments.cluster,
        lambda view, _: [(view.cluster.name, use) for use in image_matrix.uses(view, image)],
    )
    # Warnings are about the nodes of today, and the question is about the image.
    findings.require_fine(arguments, findings.without_warnings(arguments, run.findings))
    every = [item for uses in run.answers for item in uses]
    used = [item for item in every if item[1].policy.recipe.labels_images and item[1].pool.driver.state == "Present"]
    others = sorted({use.policy.recipe.name for _, use in every if not use.policy.recipe.labels_images})
    if not used and others:
        raise errors.RefusedError(
            f"'{wording.escaped(image)}' is an image of recipe '{others[0]}', and only images of KAE's driver have "
            "labels that tell their kernels.",
            hint="`kae preflight --kernel VERSION` lists the images that a kernel needs.",
        )
    if not used:
        raise errors.RefusedError(
            f"no policy installs a driver from '{wording.escaped(image)}'.",
            hint="Name it as output/CLUSTER/images.txt does; an archive has the name that it was saved by.",
        )
    faults = [item for name, use in used for item in driver_images.findings(image, content, name, use)]
    found, body = findings.with_severities(arguments, faults), _image_lines(image, content, used)
    return findings.show(arguments, found, body, **_image_data(image, content, used))


def _image(arguments: argparse.Namespace) -> tuple[str, image_matrix.Content]:
    """Return the name and the content of the image that the call names; raise RefusedError without labels."""
    image = arguments.image
    if Path(image).is_file():
        known, labels = _of_archive(Path(image))
        if len(known) != 1:
            what = f"has the names {wording.listed(known)}" if known else "has no name"
            hint = "Save it by the one name that policies give it."
            raise errors.RefusedError(f"the image in {wording.file_name(image)} {what}.", hint=hint)
        (image,) = known
    else:
        said = wording.escaped(image)
        hint = f"Run: skopeo inspect docker://{said} | kae preflight --image {said}"
        if sys.stdin is not None and sys.stdin.isatty():
            raise errors.RefusedError(f"{wording.file_name(image)} is no file, and nothing is piped.", hint=hint)
        known, labels = _of_inspection(cli.piped(hint)[1])
        without_tags = sorted({images.name(name) for name in known})
        if known and images.name(image) not in without_tags:
            other = wording.listed(map(wording.escaped, without_tags), most=1)
            raise errors.RefusedError(f"standard input is about {other}, and not about '{said}'.", hint=hint)
    content = image_matrix.content(labels)
    if content is None:
        message = f"the image '{wording.escaped(image)}' has no label {image_matrix.LABEL}version."
        raise errors.RefusedError(message, hint="Build it as docs/driver-image.md says.")
    return image, content


def _image_lines(image: str, content: image_matrix.Content, used: _Uses) -> Iterator[str]:
    yield f"{wording.escaped(image)}\n"
    yield f"  driver   {wording.escaped(content.version)}\n"
    yield f"  sources  {wording.escaped(', '.join(sorted(content.sources)) or 'none')}\n"
    yield f"  kernels  {', '.join(sorted(content.kernels)) or 'none'}\n"
    for cluster, use in used:
        counts = wording.counted(sum(use.nodes.values()), "node")
        yield f"  cluster {cluster}, policy {use.policy.name}, pool {use.pool.name}: {counts} by {use.source}\n"


def _image_data(image: str, content: image_matrix.Content, used: _Uses) -> dict[str, Any]:
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


def _of_archive(path: Path) -> _Labelled:
    """Return the labels of an archive, as `podman save` and `docker save` write it.

    Formats: https://github.com/opencontainers/image-spec/blob/main/image-layout.md, and manifest.json of Docker's
    archives. Raises RefusedError where a file is none of these, or holds several images.
    """
    try:
        with tarfile.open(path) as archive:
            if "manifest.json" not in archive.getnames():
                return _of_layout(archive)
            (image,) = _json(archive, "manifest.json")
            return [str(name) for name in image.get("RepoTags") or ()], _labels(_json(archive, image["Config"]))
    except (tarfile.TarError, EOFError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        message = f"{wording.file_name(str(path))} is no archive of one image."
        hint = "Write it by `podman save --format oci-archive -o FILE IMAGE`."
        raise errors.RefusedError(message, hint=hint) from error


def _of_inspection(text: bytes) -> _Labelled:
    """Return the labels in the answer of `skopeo inspect`, `podman image inspect`, `docker image inspect` or their kin.

    The names are those in the answer; skopeo's has no tag. Raises RefusedError where it is none of these.
    """
    try:
        data = json.loads(text)
        (image,) = data if isinstance(data, list) else (data,)
        name = image.get("Name")  # It is in skopeo's answer, whose RepoTags are bare tags.
        known = [name] if name else [*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())]
        return [str(one) for one in known], _labels(image)
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        message = "standard input is not what a program says of one image."
        raise errors.RefusedError(message, hint="Pipe the JSON of `skopeo inspect`.") from error


def _of_layout(archive: tarfile.TarFile) -> _Labelled:
    (entry,) = _json(archive, "index.json")["manifests"]
    said = entry.get("annotations") or {}
    # Where containerd or BuildKit write the first, the second is the tag alone.
    name = said.get("io.containerd.image.name") or said.get("org.opencontainers.image.ref.name")
    first, *others = [_labels(_blob(archive, manifest["config"])) for manifest in _manifests(archive, entry)]
    if any(labels != first for labels in others):
        raise ValueError("the images of several platforms hold different drivers")
    return [str(name)] if name else [], first


def _manifests(archive: tarfile.TarFile, entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the manifest of an image, or of each platform of an index; BuildKit's attestations are for none."""
    manifest = _blob(archive, entry)
    if "config" in manifest:
        yield manifest
        return
    for part in manifest["manifests"]:
        if (part.get("platform") or {}).get("architecture") != "unknown":
            yield _blob(archive, part)


def _blob(archive: tarfile.TarFile, descriptor: Mapping[str, Any]) -> Any:
    return _json(archive, f"blobs/{descriptor['digest'].replace(':', '/')}")


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return json.loads(file.read(_BYTES))


def _labels(image: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels in an image's config, or in what a program says of an image."""
    inner = image.get("Config") or image.get("config") or {}
    labels = image.get("Labels") or inner.get("Labels") or {}
    return {str(key): str(value) for key, value in labels.items()}
