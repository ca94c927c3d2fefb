"""A trial: a random fleet, an edit of its supply, and the risks that `kae diff` finds in it."""

import copy
import dataclasses
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler import pipeline
from compiler.changes import difference, intent, sides
from compiler.checks import risks
from compiler.formats import documents as texts
from compiler.planning import plan
from compiler.rendering import layout
from tests import builders
from tests.property import campaign
from tests.property.fleets import fleet as fleets
from tests.property.fleets import trial as plans
from tests.property.supply import judge

Raw = dict[str, Any]

_TRIES = 30
_PLACES = ("cr.openfuyao.cn/rival", "registry.example.com/rival", "rival.example.com/a/b", "cr.openfuyao.cn/openfuyao")
_URLS = ("https://a.example.com/x", "http://a.example.com/x", "https://a.example.com/y", "https://b.example.com/x")


def _images(fleet: Raw) -> Iterator[Raw]:
    """Yield the objects with the parts of an image, in a policy or in a recipe."""
    for policy in fleet["policies"]:
        spec = policy["spec"]
        layers = [spec, *spec.get("kernelMappings", ()), *_groups(spec)]
        if policy["kind"] == "KAEPolicy":
            driver = spec["driver"]
            yield from (driver, spec["devicePlugin"], *driver.get("kernelMappings", ()), *_groups(driver))
        else:
            yield from (image for layer in layers for image in layer.get("images", {}).values())
    for recipe in fleet["recipes"]:
        yield from recipe["spec"]["images"].values()


def _groups(spec: Raw) -> list[Raw]:
    return [group for sort in ("waves", "frozen") for group in spec.get("rollout", {}).get(sort, ())]


def _sources(fleet: Raw) -> list[Raw]:
    """Return the sources of drivers."""
    found = []
    for policy in fleet["policies"]:
        driver, spec = policy["spec"].get("driver", {}), policy["spec"]
        of_kae = policy["kind"] == "KAEPolicy"
        layers = [*(driver if of_kae else spec).get("kernelMappings", ()), *_groups(driver if of_kae else spec)]
        found += [layer["source"] for layer in (driver, *layers) if "source" in layer]
        found += [layer["driver"]["source"] for layer in layers if "source" in layer.get("driver", {})]
    return found


def _move(draw: random.Random, fleet: Raw) -> None:
    image = draw.choice(list(_images(fleet)))
    if image.get("repository") == "" or draw.random() < 0.3:
        name, _, tag = image.get("image", "kae-driver").partition(":")
        image["image"] = f"{name}-rival{':' if tag else ''}{tag}"
    else:
        image["repository"] = draw.choice(_PLACES)


def _tag(draw: random.Random, fleet: Raw) -> None:
    image = draw.choice(list(_images(fleet)))
    if image.get("repository") == "":
        image["image"] = re.sub(r":[0-9.]+", f":9.{draw.randrange(9)}", image["image"])
    elif "version" in image:
        tail = re.sub(r"^(sha256:)?[0-9a-f.]+", "", image["version"])
        image["version"] = f"sha256:{'ab' * 32}" if not tail and draw.random() < 0.3 else f"9.{draw.randrange(9)}{tail}"


def _mirror(draw: random.Random, fleet: Raw) -> None:
    mirrors = fleet["cluster"]["spec"].setdefault("images", {}).setdefault("mirrors", [])
    if mirrors and draw.random() < 0.5:
        chosen = draw.choice(mirrors)
        chosen["to"] = draw.choice(("mirror.example.com/moved", "mirror.example.org"))
        if draw.random() < 0.3:
            mirrors.remove(chosen)
    else:
        known = {mirror["from"] for mirror in mirrors}
        places = [one for one in ("cr.openfuyao.cn/openfuyao", "registry.example.com", "q.io") if one not in known]
        mirrors.append({"from": draw.choice(places or ["z.io"]), "to": "mirror.example.com/new"})


def _packages(draw: random.Random, fleet: Raw) -> None:
    source = draw.choice(_sources(fleet))
    if "packages" not in source and "build" not in source:
        source.clear()
        source["packages"] = {"names": ["kae"]}
    for part in source.values():
        part["repositories"] = draw.sample(_URLS, draw.randrange(3))
        if "names" in part and draw.random() < 0.4:
            part["gpgCheck"] = False


def _force(draw: random.Random, fleet: Raw) -> None:
    own = [
        policy["spec"]
        for policy in fleet["policies"]
        if policy["kind"] == "DevicePolicy" and "driver" in policy["spec"]
    ]
    draw.choice(own)["driver"]["network"] = {"force": True}


def _inject(draw: random.Random, fleet: Raw) -> None:
    offering = [recipe["spec"]["devicePlugin"] for recipe in fleet["recipes"] if "devicePlugin" in recipe["spec"]]
    resource = draw.choice(draw.choice(offering)["resources"])
    part = draw.choice(
        (
            {"nodes": [{"path": "/dev/rival"}]},
            {"mounts": [{"path": "/opt/rival", "readOnly": draw.random() < 0.5}]},
            {"env": {"RIVAL": "1"}},
            {"preload": ["/opt/rival/lib.so"]},
            {"files": [{"name": "rival", "as": "/etc/rival.conf", "text": "rival"}]},
        )
    )
    resource["inject"] = [*resource.get("inject", ()), part]


EDITS: Mapping[str, Callable[[random.Random, Raw], None]] = {
    "move an image": _move,
    "move a tag": _tag,
    "move a mirror": _mirror,
    "change packages": _packages,
    "force a swap": _force,
    "inject into pods": _inject,
}


def trial(seed: int, _: Path | None = None) -> campaign.Result:
    """Edit a random fleet until it compiles otherwise, and compare its risks with the two outputs."""
    draw = random.Random(f"supply {seed}")  # noqa: S311 - a trial is drawn again from its seed
    if seed % plans.BATCH == 0:
        builders.renderer.cache_clear()
    sort = sorted(EDITS)[seed % len(EDITS)]
    for attempt in range(_TRIES):
        fleet = sound(fleets.with_recipes(seed + 1000 * attempt))
        # The second of two edits of a sort also takes back what the first one did.
        first = _edited(draw, fleet, sort) if draw.random() < 0.4 else fleet
        second = _edited(draw, first, sort) if first else None
        if (
            first is not None
            and second is not None
            and (first.cluster, first.policies, first.recipes)
            != (
                second.cluster,
                second.policies,
                second.recipes,
            )
        ):
            return _judged(seed, sort, first, second)
    return campaign.Result(seed=seed, faults=[f"no edit compiles: {sort}"])


def sound(fleet: fleets.Fleet) -> fleets.Fleet:
    """Return the fleet without the policies that a compile refuses."""
    while True:
        _, errors = plans.viewed(fleet)
        if not errors:
            return fleet
        names = {pair[1] for pair in plans.overlaps(fleet)}
        defaults = {policy["metadata"]["name"] for policy in fleet.policies if policy["spec"].get("default")}
        fleet = plans.without(fleet, names or defaults)


def _edited(draw: random.Random, fleet: fleets.Fleet, sort: str) -> fleets.Fleet | None:
    """Return a fleet after an edit; None where nothing was there to edit, or the compile refuses it."""
    raw: Raw = copy.deepcopy({key: getattr(fleet, key) for key in ("cluster", "policies", "recipes")})
    try:
        EDITS[sort](draw, raw)
    except IndexError:
        return None
    edited = dataclasses.replace(fleet, **raw)
    return None if plans.viewed(edited)[1] else edited


def _judged(seed: int, sort: str, before: fleets.Fleet, after: fleets.Fleet) -> campaign.Result:
    views = [plans.viewed(each)[0] for each in (before, after)]
    was, now = (sides.of_plan(view, pipeline.manifests_of(view)) for view in views)
    written = [documents(each) for each in (before, after)]
    basis = difference.Basis(changed=intent.changes(*written), render=builders.renderer())
    compared = risks.compared(was, now, basis)
    told = {(risk.finding.code, risk.policy) for risk in compared.risks} if compared else set[tuple[str, str | None]]()
    wanted = judge.expected(*(judge.read(_daemon_sets(view)) for view in views))
    faults = [
        f"'{policy}' brings other writers, and none of {sorted(codes)} is told"
        for codes, policy in wanted
        if told.isdisjoint((code, policy) for code in codes)
    ]
    meant = {(code, policy) for codes, policy in wanted for code in codes}
    faults += [
        f"{code} of '{policy}', and nobody else writes anything" for code, policy in told - meant if code in judge.CODES
    ]
    counts = Counter({sort: 1, f"{sort}: risks": bool(wanted)})
    return campaign.Result(seed=seed, acts=(sort,), counts=counts, faults=faults)


def documents(fleet: fleets.Fleet) -> list[texts.Document]:
    return [
        builders.document(data, f"{data['kind']}/{data['metadata']['name']}.yaml")
        for data in (fleet.cluster, *fleet.policies, *fleet.recipes)
    ]


def _daemon_sets(view: plan.Plan) -> list[Mapping[str, Any]]:
    """Return the DaemonSets of the output of a plan."""
    every = layout.objects(pipeline.manifests_of(view), builders.renderer())
    return [item.data for item in every if item.data["kind"] == "DaemonSet"]
