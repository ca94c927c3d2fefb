"""What a change does to nodes of a recipe, and to those of KAE."""

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest

from compiler import pipeline
from compiler.changes import difference, effects, sides
from compiler.fleet import definitions
from compiler.inventory import snapshot
from compiler.planning import kernels
from compiler.views.diff import sentences
from compiler.views.diff import text as diff_text
from tests import builders
from tests.compiler.views import stacked

ALWAYS = {"env": [{"name": "INSTALL_POLICY", "value": "Always"}]}


def kae(**driver: Any) -> definitions.Policy:
    return builders.policy("tls", driver=driver)


def of_all_kinds(**driver: Any) -> definitions.Policy:
    kinds = {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}
    return builders.policy("tls", driver=driver, operator=kinds)


def of_recipe(path: str = "/opt/lab", *files: str, **driver: Any) -> definitions.Policy:
    return of_software(driver, files=[{"from": f"{path}/{file}", "to": f"/opt/{file}"} for file in files], paths=[path])


def of_software(
    driver: dict[str, Any], paths: Sequence[str] = ("/opt/lab",), versions: Sequence[str] = ("1", "1"), **software: Any
) -> definitions.Policy:
    """Return a policy of a recipe whose driver comes out of the images `modules` and `user`, of these versions."""
    own = {
        "image": "installer",
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}, {"image": "user", "paths": list(paths)}],
        "modules": [{"name": "lab", "parameters": {"size": {"type": "integer"}}}],
    }
    named = zip(("modules", "user"), versions, strict=True)
    others = {name: {**builders.IMAGES["installer"], "image": name, "version": version} for name, version in named}
    recipe = builders.recipe("lab", driver=own | software, images={**builders.IMAGES, **others})
    return builders.device_policy("lab", recipe, driver=driver)


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


def of_path(path: str, version: str = "1") -> definitions.Policy:
    """Return a policy of a recipe whose driver comes as packages of a path of the host, beside an image."""
    source = {"packages": {"names": ["lab"], "repositories": [f"file:///var/lib/{path}"]}}
    return of_software({"source": source}, versions=(version, "1"))


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
        (of_path("kae/packages"), of_path("kae/packages", "2"), ("image",), "if the content differs"),
        (of_path("rpms"), of_path("rpms", "2"), (), "keeps its driver"),
    ],
)
def test_a_driver_may_be_replaced_for_other_settings_than_its_version_and_source(
    was: definitions.Policy, now: definitions.Policy, reasons: tuple[str, ...], said: str
) -> None:
    found = effect(was, now)

    assert (found.work, found.reasons) == ("may-swap" if reasons else "restarts", reasons)
    assert said in sentences.driver([found])


MORE: list[dict[str, Any]] = [{"name": "lab"}, {"name": "lab_net", "optional": True}]
BOTH = {"modules": ["lab", "lab_net"]}
SIZED = [{**MORE[0], "parameters": {"size": {"type": "integer"}}}, MORE[1]]


def with_size(**driver: Any) -> definitions.Policy:
    return of_recipe(moduleParameters={"lab": {"size": 7}}, **driver)


@pytest.mark.parametrize(
    ("was", "now", "work", "reasons", "said"),
    [
        (
            of_software(BOTH, modules=MORE),
            of_software({}, modules=MORE),
            "swaps",
            ("modules",),
            "for other modules",
        ),
        (
            of_software({}, modules=MORE),
            of_software(BOTH, modules=MORE),
            "swaps",
            ("modules",),
            "for other modules",
        ),
        (with_size(), of_recipe(), "reloads", ("moduleParameters",), "loads its modules again"),
        (
            of_software({}),
            of_software({}, modules=[{"name": "lab", "replaces": ["old"]}]),
            "may-swap",
            ("replaces",),
            "may load its modules again",
        ),
        (of_software({}), of_software({}, nodes=["/dev/lab"]), "may-swap", ("nodes",), "may load its modules again"),
        (
            of_software({}),
            of_software({}, paths=["/opt/lab", "/opt/more"]),
            "may-swap",
            ("payloads",),
            "takes other paths",
        ),
        (of_software({}, version="user"), of_software({}, version="modules"), "restarts", (), "keeps its driver"),
        (
            of_software({}, version="user"),
            of_software({}, version="user", versions=("2", "1")),
            "swaps",
            ("image",),
            "gets the image modules:2, with another driver",
        ),
        (
            of_software({}, version="user"),
            of_software({}, version="user", versions=("1", "2")),
            "may-swap",
            ("image",),
            "if the content differs",
        ),
        (
            with_size(),
            of_software({"moduleParameters": {"lab": {"size": 8}}}, paths=["/opt/new"]),
            "reloads",
            ("moduleParameters", "payloads"),
            "and another driver if the content of its images differs",
        ),
    ],
    ids=[
        *("a module dropped", "a module added", "a parameter removed", "a module to replace", "a device node"),
        *("a payload's path", "the image of the version", "another image", "an image without a part", "two settings"),
    ],
)
def test_what_an_installer_will_do_is_told(
    was: definitions.Policy, now: definitions.Policy, work: effects.Work, reasons: tuple[str, ...], said: str
) -> None:
    found = effect(was, now)

    assert (found.work, found.reasons) == (work, reasons)
    assert said in sentences.driver([found])


def booted(*kernels: str, **driver: Any) -> effects.Effect:
    """Return what happens to a node that runs another kernel."""
    sides_ = []
    for kernel in kernels:
        machine = msgspec.structs.replace(builders.profile(), kernel_version=kernel)
        view = builders.view([kae(**driver)], [builders.node(machine=machine)])[0]
        sides_.append(sides.of_plan(view, pipeline.manifests_of(view)))
    (found,) = effects.effects(sides_[0], sides_[1], frozenset(), ())
    return found


def test_a_node_with_another_kernel_is_told_with_the_installer_that_brings_its_driver() -> None:
    found = booted("5.10.0-1", "6.6.0-2", version="2.2.0")

    assert (found.work, found.reasons, found.kernels) == ("installs", ("kernel",), ("5.10.0-1", "6.6.0-2"))
    assert [sentence.text for sentence in sentences.sentences([found])] == [
        "1 node of policy tls runs kernel 6.6.0-2 instead of 5.10.0-1 in cluster east, and gets driver 2.2.0 for it"
        " from the installer kae-driver-installer:2.2.0, as far as that holds one."
    ]


def test_a_node_whose_new_kernel_has_no_driver_is_told() -> None:
    mapping = {"kernelMappings": [{"name": "old", "regexp": "^5", "version": "2.2.0"}]}

    found = booted("5.10.0-1", "6.6.0-2", **mapping)

    texts = [sentence.text for sentence in sentences.sentences([found])]
    assert (
        "1 node of policy tls runs kernel 6.6.0-2 instead of 5.10.0-1 in cluster east,"
        " for which its policy has no driver."
    ) in texts


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
        (kae(version="2.2.0"), kae(version=f"2.2.0@{DIGEST}"), {}, ("image",), "if the content differs"),
        (of_recipe(), of_recipe(), mirrored("registry.example.com"), ("mirrors",), "from mirror.example.com/"),
        # The installer compares the names of packages: what others write is fetched with the next driver.
        (packages(A), packages(B), {}, (), "keeps its driver"),
        (packages(A, B), packages(B, A), {}, (), "keeps its driver"),
        (packages(A), packages(A, gpgCheck=False), {}, (), "keeps its driver"),
    ],
)
def test_a_driver_may_be_replaced_where_somebody_else_writes_its_bytes(
    was: definitions.Policy, now: definitions.Policy, spec: dict[str, Any], reasons: tuple[str, ...], said: str
) -> None:
    found = effect(was, now, **spec)

    assert (found.work, found.reasons) == ("may-swap" if reasons else "restarts", reasons)
    assert said in sentences.driver([found])


IN_TREE: dict[str, Any] = {"source": {"inTree": {}}}
LOCAL = ["file:///var/lib/kae/packages"]


@pytest.mark.parametrize(
    ("was", "now", "work", "reasons"),
    [
        (
            of_software(IN_TREE, modules=MORE, sources=["inTree"]),
            of_software(IN_TREE | BOTH, modules=MORE, sources=["inTree"]),
            "may-swap",
            ("modules",),
        ),
        (of_software({}), of_software({}, modules=[{"name": "lab", "replaces": ["lab"]}]), "may-swap", ("replaces",)),
        (packages(A), packages(*LOCAL), "swaps", ("source",)),
        (kae(state="Absent"), kae(state="Absent", **ALWAYS), "may-swap", ("INSTALL_POLICY",)),
        (
            of_software({"installPolicy": "Always"}, modules=MORE),
            of_software({"moduleParameters": {"lab": {"size": 7}}}, versions=("1", "2"), modules=SIZED),
            "reloads",
            ("moduleParameters", "image"),
        ),
    ],
    ids=["in-tree modules", "its own name", "packages of the image", "Absent and Always", "certain and not"],
)
def test_what_others_may_have_installed_is_not_said_to_stay(
    was: definitions.Policy, now: definitions.Policy, work: effects.Work, reasons: tuple[str, ...]
) -> None:
    found = effect(was, now)

    assert (found.work, found.reasons) == (work, reasons)
    assert found.drain


def test_a_setting_that_changes_beside_a_kernel_is_told_as_the_inventory_may_be_older_than_the_boot() -> None:
    was, now = (
        builders.view(
            [policy], [builders.node(machine=msgspec.structs.replace(builders.profile(), kernel_version=kernel))]
        )[0]
        for policy, kernel in (
            (kae(), "5.10.0-1"),
            (kae(moduleParameters={"hisi_hpre": {"pf_q_num": 128}}), "6.6.0-2"),
        )
    )
    sides_ = [sides.of_plan(each, pipeline.manifests_of(each)) for each in (was, now)]

    (found,) = effects.effects(sides_[0], sides_[1], frozenset(sides_[1].on_nodes()), ())

    assert (found.work, found.reasons) == ("may-swap", ("moduleParameters",))
    assert found.drain
    assert found.kernels


def test_a_node_that_boots_another_system_had_what_the_earlier_mapping_of_that_one_brings() -> None:
    mappings = [
        {"name": "old", "regexp": ".", "os": {"id": "openEuler", "versions": ["22.03"]}},
        {"name": "new", "regexp": ".", "os": {"id": "openEuler", "versions": ["24.03"]}, "version": "2.9.0"},
    ]
    was, now = (
        builders.view(
            [kae(kernelMappings=mappings, **driver)],
            [
                builders.node(
                    machine=msgspec.structs.replace(
                        builders.profile({**builders.HPRE, kernels.SYSTEM: "openEuler", kernels.VERSION: version}),
                        kernel_version=kernel,
                    )
                )
            ],
        )[0]
        for driver, kernel, version in (
            ({}, "5.10.0-1", "22.03"),
            ({"moduleParameters": {"hisi_hpre": {"pf_q_num": 128}}}, "6.6.0-2", "24.03"),
        )
    )
    sides_ = [sides.of_plan(each, pipeline.manifests_of(each)) for each in (was, now)]

    (found,) = effects.effects(sides_[0], sides_[1], frozenset(sides_[1].on_nodes()), ())

    assert (found.work, found.reasons) == ("may-swap", ("moduleParameters",))


def test_an_installer_that_comes_to_devices_that_are_served_may_replace_their_driver() -> None:
    found = effect(kae(enabled=False), kae(version="2.3.0"))

    assert (found.work, found.reasons) == ("may-swap", ("installer",))
    assert found.drain
    assert "in the place of one that is there" in sentences.driver([found])


def test_a_driver_that_is_cleaned_up_as_its_policy_gets_another_name_is_taken_out_of_use() -> None:
    found = effect(kae(enabledCleanup=True), builders.policy("other", driver={"enabledCleanup": True}))

    assert (found.work, found.reasons) == ("swaps", ("enabledCleanup",))
    assert "to enabledCleanup in cluster east, and gets it anew" in sentences.driver([found])


def test_the_pods_of_other_device_plugins_are_not_counted_as_none() -> None:
    served = {"devicePlugin": {"enabled": False}}
    was, now = (builders.policy("tls", driver={"version": version}, **served) for version in ("2.2.0", "2.3.0"))

    found = effect(was, now)

    assert found.drain
    assert found.drain.most is None


def test_a_frozen_node_that_is_thawed_beside_a_kernel_is_judged_by_its_own_group() -> None:
    frozen = {"rollout": {"frozen": [{"name": "old", "nodes": ["kp920-02"], "version": "2.1.0"}]}}
    before, after = (
        builders.view(
            [policy],
            [
                builders.node(name, machine=msgspec.structs.replace(builders.profile(), kernel_version=kernel))
                for name in ("kp920-01", "kp920-02")
            ],
        )[0]
        for policy, kernel in ((kae(version="2.2.0", **frozen), "5.10.0-1"), (kae(version="2.2.0"), "6.6.0-2"))
    )
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in (before, after))

    found = {effect.nodes: effect for effect in effects.effects(was, now, frozenset(now.on_nodes()), ())}

    assert found["kp920-01",].work == "installs"
    assert (found["kp920-02",].work, found["kp920-02",].reasons) == ("may-swap", ("version",))
    assert found["kp920-02",].drain


def test_a_driver_that_others_installed_beside_a_kernel_is_said_to_be_replaced_perhaps() -> None:
    machines = [
        msgspec.structs.replace(builders.profile(), kernel_version=kernel) for kernel in ("5.10.0-1", "6.6.0-2")
    ]
    views = [
        builders.view([policy], [builders.node(machine=machine)])[0]
        for policy, machine in zip((kae(enabled=False), kae(version="2.2.0")), machines, strict=True)
    ]
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in views)

    (found,) = effects.effects(was, now, frozenset(now.on_nodes()), ())

    assert (found.work, found.reasons) == ("may-swap", ("installer",))


@pytest.mark.parametrize(("functions", "work"), [({"pf": "2"}, "functions"), ({}, "functions"), ({"vf": "2"}, None)])
def test_virtual_functions_are_made_of_physical_ones_alone(functions: dict[str, str], work: str | None) -> None:
    counts = {f"openfuyao.com/kae.hpre.{function}": number for function, number in functions.items()}
    machine = builders.profile({key: "true" for key in builders.HPRE if "present" in key} | counts)
    was, now = (placed(kae(**driver), machine) for driver in ({}, {"sriov": {"hpre": 4}}))

    (found,) = effects.effects(was, now, frozenset(now.on_nodes()), ())

    assert found.work == (work or "restarts")


def test_a_driver_of_a_copied_recipe_waits_for_the_one_that_is_there() -> None:
    software = {"image": "installer", "modules": [{"name": "lab"}]}
    was, now = (
        placed(builders.device_policy("lab", builders.recipe(name, driver=software)), builders.profile())
        for name in ("lab", "copy")
    )

    found = {effect.recipe.name: effect for effect in effects.effects(was, now, frozenset(), ()) if effect.work}

    assert (found["lab"].work, found["copy"].work) == ("leaves", "may-swap")
    assert "once no driver of another recipe has modules of it there" in sentences.driver([found["copy"]])


def test_a_recipe_that_replaces_the_module_of_a_driver_that_stays_takes_it_out_of_use() -> None:
    lab, more = (
        builders.device_policy("lab", builders.recipe(name, driver={"image": "installer", "modules": [module]}))
        for name, module in (("lab", {"name": "lab"}), ("more", {"name": "more", "replaces": ["lab"]}))
    )
    was, now = placed(lab, builders.profile()), placed(more, builders.profile())

    found = {effect.recipe.name: effect.work for effect in effects.effects(was, now, frozenset(), ())}

    assert found["more"] == "may-swap"


def test_a_driver_of_others_is_in_danger_where_an_absent_one_comes_back_as_always() -> None:
    found = effect(kae(state="Absent"), kae(**ALWAYS))

    assert (found.work, found.reasons) == ("may-swap", ("INSTALL_POLICY",))


def test_what_is_offered_from_now_on_may_be_held_when_a_host_has_its_turn() -> None:
    def of(version: str, sharing: int) -> definitions.Policy:
        return builders.policy("tls", driver={"version": version}, devicePlugin={"sharing": {"hpre": sharing}})

    machine = builders.profile({**builders.HPRE, "openfuyao.com/kae.hpre.pf": "2"})
    was, now = (placed(of(*setting), machine) for setting in (("2.2.0", 1), ("2.3.0", 8)))

    (found,) = effects.effects(was, now, frozenset(now.on_nodes()), ())

    assert found.drain
    assert found.drain.most == 16


def test_the_pods_of_a_cluster_that_goes_are_gone_and_not_out_of_sight() -> None:
    (found,) = effects.effects(placed(kae(enabled=False), builders.profile()), None, frozenset(), ())

    assert not found.is_unseen
    assert "device plugin" in sentences.loss([found], 0)


def placed(policy: definitions.Policy, machine: snapshot.Profile) -> sides.Planned:
    """Return a cluster with one node of a policy."""
    planned, _ = builders.view([policy], [builders.node(machine=machine)], builders.cluster())
    return sides.of_plan(planned, pipeline.manifests_of(planned))


def on_tainted(
    effect: str, before: definitions.Policy | None, after: definitions.Policy | None, *, since: bool = True
) -> difference.ClusterDifference | None:
    """Return what happens to a node with a taint of an effect, which it gets by the change, or loses by it."""
    bare, tainted = (
        builders.node(machine=builders.profile(taints=taints)) for taints in ([], [builders.taint(f"x=y:{effect}")])
    )
    ends = zip((before, after), (bare, tainted) if since else (tainted, bare), strict=True)
    plans = [builders.view([policy] if policy else [], [node])[0] for policy, node in ends]
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)
    return difference.of_cluster(was, now, difference.Basis(changed=(), render=builders.renderer()))


def test_pods_of_a_node_that_gets_a_taint_without_an_eviction_stay() -> None:
    assert on_tainted("NoSchedule", kae(), kae()) is None


@pytest.mark.parametrize(
    ("sort", "after"),
    [("NoExecute", kae()), ("NoSchedule", kae(version="2.3.0")), ("NoSchedule", kae(enabled=False))],
    ids=["evicting", "another template", "no installer any more"],
)
def test_a_driver_loses_its_installer_where_the_taint_lets_no_pod_stay(sort: str, after: definitions.Policy) -> None:
    found = on_tainted(sort, kae(), after)

    assert found
    (one,) = found.effects
    assert (one.driver_pod, one.work) == ("deleted", "leaves")


def test_of_the_pods_of_a_tainted_node_the_one_with_another_template_goes() -> None:
    plugin = builders.policy("tls", devicePlugin={"sharing": {"hpre": 4}})

    found = on_tainted("NoSchedule", kae(), plugin)

    assert found
    (one,) = found.effects
    assert (one.driver_pod, one.device_plugin_pod) == (None, "deleted")
    assert {change.ref.name: change.nodes.deleted for change in found.pods} == {"kae-device-plugin-tls": ("kp920-01",)}


def test_pods_from_before_a_taint_that_go_with_their_policy_are_told() -> None:
    tainted = builders.node(machine=builders.profile(taints=[builders.taint("x=y:NoSchedule")]))
    plans = [builders.view(policies, [tainted])[0] for policies in ([kae()], [])]
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)

    found = difference.of_cluster(was, now, difference.Basis(changed=(), render=builders.renderer()))

    assert found
    assert found.barred == (tainted.name,)


@pytest.mark.parametrize(
    ("was", "work"),
    [
        pytest.param(None, "may-swap", id="no policy, as where it was removed before"),
        pytest.param(kae(enabled=False), "may-swap", id="pre-installed"),
        pytest.param(
            builders.policy("tls", driver={"enabled": False}, devicePlugin={"enabled": False}), "may-swap", id="nothing"
        ),
        pytest.param(
            kae(kernelMappings=[{"name": "other", "literal": "6.1"}]), "may-swap", id="a kernel without a driver"
        ),
        pytest.param(kae(state="Absent"), "installs", id="removed"),
    ],
)
def test_a_driver_that_comes_may_find_one_unless_it_was_removed(
    was: definitions.Policy | None, work: effects.Work
) -> None:
    plans = [builders.view([each] if each else [], [builders.node()])[0] for each in (was, kae())]
    before, after = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)

    (found,) = effects.effects(before, after, frozenset(after.on_nodes()), ())

    assert found.work == work
    assert bool(found.drain) == (work == "may-swap")


def test_a_driver_that_comes_as_a_taint_goes_may_find_one() -> None:
    found = on_tainted("NoSchedule", kae(), kae(), since=False)

    assert found
    assert [each.work for each in found.effects] == ["may-swap"]


@pytest.mark.parametrize(("effect", "freed"), [("NoSchedule", ("kp920-01",)), ("NoExecute", ())])
def test_pods_from_before_a_taint_that_goes_may_be_there_where_it_evicted_none(
    effect: str, freed: tuple[str, ...]
) -> None:
    found = on_tainted(effect, kae(), kae(), since=False)

    assert found
    assert found.freed == freed
    end = difference.Revision(name="main", commit=None)
    compared = difference.Difference(before=end, after=end, intent=(), clusters=(found,))
    said = [text for text in diff_text.remarks(compared) if "from before the taint" in text]
    assert said == [
        "1 node of cluster east loses a NoSchedule taint that the policy does not tolerate: a pod that is there from "
        "before the taint counts as one that comes, and stays unless its template changes."
    ] * len(freed)


def test_a_driver_that_comes_to_nodes_that_join_or_get_the_hardware_finds_none() -> None:
    without = builders.node(machine=builders.profile(labels={"feature.node.kubernetes.io/pci-0200.present": "true"}))
    for nodes in ([], [without]):
        plans = [builders.view([kae()], own)[0] for own in (nodes, [builders.node()])]
        before, after = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)
        assert [each.work for each in effects.effects(before, after, frozenset(), ())] == ["installs"]


@pytest.mark.parametrize(
    ("was", "said"),
    [
        (None, "1 node of policy tls loses a driver in cluster east, if there is one"),
        (kae(enabled=False), "1 node of policy tls loses a driver in cluster east, if there is one"),
        (kae(), "1 node of policy tls loses driver latest in cluster east"),
    ],
)
def test_a_driver_that_is_removed_has_a_version_only_if_it_is_known(was: definitions.Policy | None, said: str) -> None:
    plans = [builders.view([each] if each else [], [builders.node()])[0] for each in (was, kae(state="Absent"))]
    before, after = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)

    found = effects.effects(before, after, frozenset(after.on_nodes()), ())

    assert any(sentence.text.startswith(said) for sentence in sentences.sentences(found))


def test_no_sentence_has_a_dash_for_a_version_that_is_not_known() -> None:
    found = effect(kae(), kae(version="2.3.0"))
    assert found.before
    assert found.after
    unknown = [msgspec.structs.replace(each, version=None) for each in (found.before, found.after)]
    ends = [(found.before, unknown[1]), (unknown[0], found.after), (unknown[0], unknown[1]), (unknown[0], None)]
    reasons = {"reloads": ("moduleParameters",), "functions": ("sriov",), "may-swap": ("image",)}
    for work in get_args(effects.Work):
        for before, after in ends:
            ends_of = {"before": before, "after": after, "device_plugin_pod": None}
            one = msgspec.structs.replace(found, work=work, reasons=reasons.get(work, ()), nodes=("n",), **ends_of)
            texts = [sentence.text for sentence in sentences.sentences([one])]
            assert not [text for text in texts if " - " in text or " -." in text or text.endswith("-")], texts


def test_where_a_taint_lets_no_new_pod_come_nobody_says_that_nothing_is_lost() -> None:
    assert sentences.loss([], 0) == "No node ends up without its driver or its device plugin."
    assert sentences.loss([], 2) == "2 nodes may lose a component by a taint."
