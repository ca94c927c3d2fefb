"""Rules for kernel mappings: what breaks each, where it is shown, and what is just within it."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import mappings as checks
from compiler.fleet import definitions
from compiler.inventory import snapshot
from tests import builders

SP4 = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
OE2403 = "6.6.0-28.0.0.34.oe2403.aarch64"
PATH = ("spec", "driver", "kernelMappings")
NAMED = "2.3.0-${KERNEL_FULL_VERSION}"
WAVE = {"name": "w", "percent": 5}
FROZEN = {"name": "f", "nodes": ["n"], "version": "2.1.0"}


def policy(*mappings: dict[str, Any], **driver: Any) -> definitions.Policy:
    """A policy with these mappings, which are called a, b, c where nothing else is said."""
    given = [{"name": name} | mapping for name, mapping in zip("abcd", mappings, strict=False)]
    return builders.policy(driver={"version": "2.2.0", "kernelMappings": given, **driver})


def findings(*mappings: dict[str, Any], **driver: Any) -> list[diagnostics.Diagnostic]:
    item = policy(*mappings, **driver)
    return list(diagnostics.merged(checks.findings(item, builders.variants(item))))


def codes(*mappings: dict[str, Any], **driver: Any) -> list[str]:
    return builders.codes(findings(*mappings, **driver))


def uncovered(item: definitions.Policy, *nodes: snapshot.Node) -> list[diagnostics.Diagnostic]:
    """Return the findings on the kernels of these nodes, which are all assigned to the policy."""
    view, _ = builders.view([item], nodes)
    (division,) = view.divisions
    return list(checks.uncovered(division, builders.nodes_of(*nodes)))


def node(name: str, kernel: str, *, labels: dict[str, str] | None = None, seen: bool = True) -> snapshot.Node:
    return builders.node(name, machine=builders.profile(labels, discovered=seen, kernel_version=kernel))


@pytest.mark.parametrize(
    ("regexp", "message"),
    [
        ("(\n\t\u202e", r"'(\n\t\u202e' is not a pattern of RE2: missing ) in '(\n\t\u202e'."),
        (f"({'a' * 99}", f"'({'a' * 79}…' is not a pattern of RE2: missing ) in '({'a' * 79}…'."),
    ],
)
def test_a_pattern_that_nfd_would_pass_over_is_shown_with_the_part_that_is_wrong(regexp: str, message: str) -> None:
    item = policy({"regexp": regexp})

    (diagnostic,) = checks.findings(item, builders.variants(item))

    assert (diagnostic.code, diagnostic.message) == ("kernel-pattern", message)
    assert diagnostic.span == item.source.span(*PATH, 0, "regexp")


@pytest.mark.parametrize(
    ("mappings", "kernels", "note"),
    [
        ([{"regexp": "sp4"}, {"regexp": "oe2203"}], [SP4], "The earlier mapping 'a' takes it."),
        ([{"regexp": "oe2203"}], [OE2403], "Its regexp does not match that kernel."),
        ([{"literal": SP4}], [OE2403], "Its literal is another kernel."),
        ([{"literal": SP4}], [f"{SP4}+"], None),
        ([{"regexp": "oe2203"}, {"regexp": "oe"}], [OE2403], None),
        ([{"regexp": "oe2203("}], [OE2403], None),
        ([{}], [OE2403], None),
    ],
)
def test_a_kernel_that_a_mapping_lists_is_one_that_it_takes(
    mappings: list[dict[str, Any]], kernels: list[str], note: str | None
) -> None:
    *earlier, last = mappings

    notes = [
        diagnostic.notes
        for diagnostic in findings(*earlier, last | {"kernels": kernels, "version": NAMED})
        if diagnostic.code == "mapping-never-wins"
    ]

    assert notes == ([(note,)] if note else [])


def test_of_a_list_the_kernel_itself_is_shown() -> None:
    item = policy({"regexp": "oe2203", "kernels": [SP4, OE2403], "version": NAMED})

    (diagnostic,) = checks.findings(item, builders.variants(item))

    assert diagnostic.span == item.source.span(*PATH, 0, "kernels", 1)


@pytest.mark.parametrize(
    ("driver", "shown"),
    [
        ({"version": NAMED}, [f"version: {NAMED}"]),
        ({"image": "kae-${KERNEL_XYZ}"}, ["image: kae-${KERNEL_XYZ}"]),
        (
            {"rollout": {"waves": [{"name": "w", "percent": 5, "image": "kae-${KERNEL_XYZ}", "version": NAMED}]}},
            ["- image: kae-${KERNEL_XYZ}", f"version: {NAMED}"],
        ),
        ({"rollout": {"frozen": [{"name": "f", "nodes": ["n"], "version": NAMED}]}}, [f"version: {NAMED}"]),
        ({"rollout": {"waves": [{"name": "w", "percent": 5}, {"name": "x", "percent": 9}]}}, []),
    ],
)
def test_an_image_is_named_after_kernels_where_mappings_tell_which(driver: dict[str, Any], shown: list[str]) -> None:
    notes = findings(**driver)

    assert builders.codes(notes) == ["kernel-placeholder"] * len(shown)
    assert [note.span.text.strip() for note in notes] == [
        line.replace(NAMED, f'"{NAMED}"').replace("kae-${KERNEL_XYZ}", '"kae-${KERNEL_XYZ}"') for line in shown
    ]
    assert "kernel-placeholder" not in codes({"regexp": "a"}, **driver)


@pytest.mark.parametrize(
    ("mapping", "driver", "sound"),
    [
        ({}, {}, False),
        ({"version": NAMED}, {}, True),
        ({"image": "kae-${KERNEL_XYZ}"}, {}, True),
        ({}, {"version": NAMED}, True),
        ({"version": "2.3.0"}, {"version": NAMED}, False),
        ({}, {"rollout": {"waves": [{"name": "w", "percent": 5, "version": NAMED}]}}, True),
    ],
)
@pytest.mark.parametrize("choice", [{"regexp": "oe2203"}, {"literal": SP4}])
def test_kernels_are_listed_for_images_that_are_named_after_them(
    choice: dict[str, str], mapping: dict[str, Any], driver: dict[str, Any], sound: bool
) -> None:
    assert ("kernel-placeholder" in codes(choice | mapping | {"kernels": [SP4]}, **driver)) is not sound


@pytest.mark.parametrize(
    ("mapping", "driver", "shown"),
    [
        ({"version": NAMED}, {"rollout": {"waves": [WAVE]}}, None),
        ({"version": NAMED}, {"rollout": {"waves": [WAVE | {"version": "2.4.0"}]}}, ("rollout", "waves", 0)),
        ({"version": NAMED}, {"rollout": {"frozen": [FROZEN]}}, ("rollout", "frozen", 0)),
        ({"version": NAMED}, {"rollout": {"frozen": [FROZEN | {"state": "Absent"}]}}, None),
        ({"version": NAMED}, {"rollout": {"waves": [WAVE | {"version": "2.4.0-${KERNEL_XYZ}"}]}}, None),
        (
            {"image": "kae-${KERNEL_XYZ}"},
            {"rollout": {"waves": [WAVE | {"version": "2.4.0"}], "frozen": [FROZEN]}},
            None,
        ),
        ({}, {"rollout": {"waves": [WAVE | {"version": NAMED}]}}, ()),
        ({}, {"rollout": {"waves": [WAVE | {"version": "2.4.0"}]}}, None),
    ],
)
def test_where_images_are_named_after_kernels_every_image_is(
    mapping: dict[str, Any], driver: dict[str, Any], shown: tuple[str | int, ...] | None
) -> None:
    item = policy({"regexp": "oe2203"} | mapping, **driver)

    notes = list(checks.findings(item, builders.variants(item)))

    assert builders.codes(notes) == ([] if shown is None else ["kernel-not-in-image"])
    assert [note.span for note in notes] == (
        [] if shown is None else [item.source.setting_span("spec", "driver", *shown, "version")]
    )


def test_nodes_whose_kernel_no_mapping_takes_are_told_by_kernel() -> None:
    item = policy({"regexp": "oe2203"})
    nodes = (node("a", SP4), node("c", "4.19+"), node("b", "4.19"), node("d", "5.4"), node("e", ""))

    unknown, old, new = uncovered(item, *nodes)

    assert (
        unknown.message == "No mapping of policy 'tls' covers the kernel '(unknown)' of 1 node (e) of cluster 'east'."
    )
    assert old.message == "No mapping of policy 'tls' covers the kernel '4.19' of 2 nodes (b and c) of cluster 'east'."
    assert new.message == "No mapping of policy 'tls' covers the kernel '5.4' of 1 node (d) of cluster 'east'."
    assert {unknown.span, old.span, new.span} == {item.source.setting_span(*PATH)}


@pytest.mark.parametrize(
    "quiet",
    [
        node("plain", "4.19", labels={}),
        node("new", "4.19", seen=False),
        node("other", "4.19", labels={"openfuyao.com/kae.zip.present": "true"}),
    ],
)
def test_a_node_to_which_no_driver_would_come_is_not_missed(quiet: snapshot.Node) -> None:
    assert uncovered(policy({"regexp": "oe2203"}), quiet) == []


def test_a_policy_without_mappings_is_for_every_kernel() -> None:
    assert uncovered(policy(), node("a", "4.19")) == []


@pytest.mark.parametrize(
    ("kernel", "argument", "found"),
    [
        ("weird", "${kernel.x}", ["reference-absent"]),
        ("weird", "${kernel.full}", []),
        ("6.6-rc1", "${kernel.z}", []),
        (OE2403, "${kernel.x}", []),
    ],
)
def test_a_program_names_the_numbers_of_a_kernel_that_has_some(kernel: str, argument: str, found: list[str]) -> None:
    program = {"name": "p", "per": "pool", "pod": {"containers": [{"name": "p", "image": "p", "args": [argument]}]}}
    image = {"repository": "r.example", "image": "p", "version": "1-${KERNEL_FULL_VERSION}"}
    recipe = builders.recipe("net", programs=[program], images={"p": image})
    item = builders.device_policy("lab", recipe, kernelMappings=[{"name": "own", "regexp": "."}])
    view, _ = builders.view([item], [builders.node("n", machine=builders.profile(kernel_version=kernel))])
    (division,) = view.divisions

    assert builders.codes(list(checks.unread(division))) == found
