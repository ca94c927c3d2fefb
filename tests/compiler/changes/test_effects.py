"""What a change does to nodes of a recipe, and to those of KAE."""

from typing import Any

import pytest

from compiler import pipeline
from compiler.changes import effects, sides
from compiler.fleet import definitions
from compiler.views.diff import sentences
from tests import builders
from tests.compiler.views import stacked

ALWAYS = {"env": [{"name": "INSTALL_POLICY", "value": "Always"}]}


def kae(**driver: Any) -> definitions.Policy:
    return builders.policy("tls", driver=driver)


def of_all_kinds(**driver: Any) -> definitions.Policy:
    kinds = {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}
    return builders.policy("tls", driver=driver, operator=kinds)


def of_recipe(path: str = "/opt/lab", *files: str, **driver: Any) -> definitions.Policy:
    software = {
        "image": "installer",
        "payloads": [{"image": "installer", "paths": [path]}],
        "files": [{"from": f"{path}/{file}", "to": f"/opt/{file}"} for file in files],
        "modules": [{"name": "lab"}],
    }
    return builders.device_policy("lab", builders.recipe("lab", driver=software), driver=driver)


def effect(before: definitions.Policy, after: definitions.Policy, **spec: Any) -> effects.Effect:
    """Return what happens to a node whose policy changes, and with it the template of its pods.

    `spec` is that of its cluster after the change.
    """
    places = builders.cluster(), builders.cluster(**spec)
    pairs = zip((before, after), places, strict=True)
    plans = [builders.view([each], [builders.node()], place)[0] for each, place in pairs]
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)
    templates = frozenset(now.on_nodes())
    (found,) = (each for each in effects.effects(was, now, templates, ()) if each.driver_pod)
    return found


@pytest.mark.parametrize(("node", "sort"), [("t-1", "wave"), ("t-2", "rest"), ("t-4", None)])
def test_the_group_of_a_recipes_node_has_the_sort_that_its_policy_declares(node: str, sort: str | None) -> None:
    (onload,) = (stack for stack in stacked.view().recipes if stack.recipe.name == "onload")
    (decision,) = (decision for decision in onload.decisions if node in decision.names)

    placement = effects.Half(side=None, decision=decision).placement()

    assert placement
    assert placement.group_sort == sort


@pytest.mark.parametrize(
    ("was", "now", "work", "reasons"),
    [
        (of_recipe(), of_recipe("/opt/lab", "etc"), "swaps", ("files",)),
        (kae(), kae(moduleParameters={"hisi_hpre": {"pf_q_num": 128}}), "reloads", ("moduleParameters",)),
        (of_all_kinds(), of_all_kinds(moduleParameters={"hisi_zip": {"pf_q_num": 128}}), "restarts", ()),
    ],
    ids=["files on the host", "a module of the node's devices", "a module of other devices"],
)
def test_what_a_changed_setting_means_for_a_running_driver(
    was: definitions.Policy, now: definitions.Policy, work: effects.Work, reasons: tuple[str, ...]
) -> None:
    found = effect(was, now)

    assert (found.work, found.reasons) == (work, reasons)


@pytest.mark.parametrize(
    ("was", "now", "reasons", "said"),
    [
        (kae(), kae(**ALWAYS), ("INSTALL_POLICY",), "as INSTALL_POLICY is Always"),
        (kae(**ALWAYS), kae(), (), "keeps its driver"),
        (kae(presentWhen="Loaded"), kae(), ("presentWhen",), "if its devices have no entries"),
        (kae(), kae(presentWhen="Loaded"), (), "keeps its driver"),
        (kae(presentWhen="Loaded", **ALWAYS), kae(**ALWAYS), (), "keeps its driver"),
        (of_recipe(), of_recipe(installPolicy="Always"), ("installPolicy",), "as installPolicy is Always"),
        (of_recipe(), of_recipe("/opt/new"), ("payloads",), "takes other paths of its images"),
    ],
)
def test_a_driver_may_be_replaced_for_other_settings_than_its_version_and_source(
    was: definitions.Policy, now: definitions.Policy, reasons: tuple[str, ...], said: str
) -> None:
    found = effect(was, now)

    assert (found.work, found.reasons) == ("may-swap" if reasons else "restarts", reasons)
    assert said in sentences.driver([found])


DIGEST = f"sha256:{'ab' * 32}"


def mirrored(registry: str) -> dict[str, Any]:
    """Return the spec of a cluster with a mirror."""
    return {"images": {"mirrors": [{"from": registry, "to": "mirror.example.com"}]}}


MIRRORS = mirrored("cr.openfuyao.cn")


def packages(*urls: str, **more: Any) -> definitions.Policy:
    return kae(version="2.2.0", source={"packages": {"names": ["kae"], "repositories": list(urls), **more}})


A, B = "https://a.example.com/kae", "https://b.example.com/kae"


@pytest.mark.parametrize(
    ("was", "now", "spec", "reasons", "said"),
    [
        (kae(image="a"), kae(image="b"), {}, ("image",), "and another driver if the content differs"),
        (
            kae(),
            kae(repository="cr.openfuyao.cn/x"),
            {},
            ("repository",),
            "takes its driver from cr.openfuyao.cn/x/kae",
        ),
        (kae(), kae(), MIRRORS, ("mirrors",), "takes its driver from mirror.example.com/openfuyao/kae-driver"),
        (kae(version=DIGEST), kae(version=DIGEST), MIRRORS, (), "keeps its driver"),
        (of_recipe(), of_recipe(), mirrored("registry.example.com"), ("mirrors",), "from mirror.example.com/"),
        (packages(A), packages(B), {}, ("repositories",), "takes packages from other repositories"),
        (packages(A), packages(), {}, ("repositories",), "takes packages from other repositories"),
        (packages(A, B), packages(B, A), {}, (), "keeps its driver"),
        (packages(A), packages(A, gpgCheck=False), {}, ("gpgCheck",), "takes packages whoever signed them"),
        (packages(A, gpgCheck=False), packages(A), {}, (), "keeps its driver"),
    ],
)
def test_a_driver_may_be_replaced_where_somebody_else_writes_its_bytes(
    was: definitions.Policy, now: definitions.Policy, spec: dict[str, Any], reasons: tuple[str, ...], said: str
) -> None:
    found = effect(was, now, **spec)

    assert (found.work, found.reasons) == ("may-swap" if reasons else "restarts", reasons)
    assert said in sentences.driver([found])
