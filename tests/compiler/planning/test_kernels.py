"""Kernels' versions, what images are called after, and what patterns of mappings take."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.fleet import definitions
from compiler.planning import kernels
from tests import builders, effort

SP4 = "5.10.0-216.0.0.115.oe2203sp4.aarch64"


def regexp(pattern: str, name: str = "a") -> definitions.KernelMapping:
    return mapping(name=name, regexp=pattern)


def literal(version: str, name: str = "a") -> definitions.KernelMapping:
    return mapping(name=name, literal=version)


def mapping(**data: Any) -> definitions.KernelMapping:
    return builders.policy(driver={"kernelMappings": [data]}).mappings[0]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (SP4, SP4),
        ("5.10.0-216.aarch64+", "5.10.0-216.aarch64"),
        ("5.10.0~rc1 (x)", "5.10.0_rc1__x"),
        ("-_.5.10._-", "5.10"),
        ("é", ""),
        ("", ""),
    ],
)
def test_a_version_is_told_as_nfd_tells_it(version: str, told: str) -> None:
    assert kernels.cleaned(version) == told
    assert kernels.cleaned(told) == told


@pytest.mark.parametrize(
    ("text", "kernel", "filled"),
    [
        ("2.3.0", SP4, "2.3.0"),
        ("2.3.0-${KERNEL_FULL_VERSION}", SP4, f"2.3.0-{SP4}"),
        ("kae-${KERNEL_XYZ}", SP4, "kae-5.10.0"),
        ("kae-${KERNEL_XYZ}", "6.6-rc1", "kae-6.6"),
        ("kae-${KERNEL_XYZ}", "5.10.0.7-1", "kae-5.10.0"),
        ("kae-${KERNEL_XYZ}", "next-20240101", "kae-next-20240101"),
        ("${KERNEL_XYZ}.${KERNEL_XYZ}", "1.2.3-4", "1.2.3.1.2.3"),
    ],
)
def test_a_part_of_an_image_is_called_after_a_kernel(text: str, kernel: str, filled: str) -> None:
    assert kernels.filled(text, kernel) == filled


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({}, False),
        ({"version": "2.3.0"}, False),
        ({"version": "${KERNEL_XYZ}"}, True),
        ({"image": "a-${KERNEL_FULL_VERSION}"}, True),
    ],
)
def test_an_image_may_differ_from_kernel_to_kernel(parts: dict[str, str], named: bool) -> None:
    driver = builders.policy(driver=parts).driver

    assert driver is not None
    assert kernels.is_named(driver.parts) is named


@pytest.mark.parametrize(
    "pattern", ["oe2203", "^5\\.10", "(?i)OE", r"\d+\.[[:digit:]]+", r"\pL", r"a\\C", r"\\\\C", "a{1000}", "é"]
)
def test_a_pattern_of_re2_has_no_fault(pattern: str) -> None:
    assert kernels.fault(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "missing )"),
        ("a)", "unexpected )"),
        ("[a", "missing ]"),
        ("a**", "bad repetition operator"),
        ("(?!a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{1001}", "invalid repetition size"),
        (r"oe\C", "unknown to NFD"),
        (r"\\\C", "unknown to NFD"),
    ],
)
def test_a_pattern_that_nfd_cannot_use_has_a_fault_and_is_found_nowhere(
    pattern: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said in (kernels.fault(pattern) or "")
    assert not kernels.is_found(pattern, "a")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "is_found"),
    [("oe2203", True), ("OE2203", False), ("^oe", False), ("^5", True), ("aarch64$", True), ("5.10", True), ("", True)],
)
def test_a_pattern_is_looked_for_anywhere_in_the_version(pattern: str, is_found: bool) -> None:
    assert kernels.is_found(pattern, SP4) is is_found


@pytest.mark.parametrize(
    ("kernel", "taken"),
    [(SP4, True), (SP4.replace(".", "x", 1), False), (f"{SP4}.x", False), (f"x{SP4}", False), ("", False)],
)
def test_a_literal_takes_its_kernel_alone_as_nfd_tells_it(kernel: str, taken: bool) -> None:
    assert kernels.is_found(kernels.pattern(literal(f"{SP4}+")), kernel) is taken


def test_the_first_mapping_that_matches_takes_a_kernel() -> None:
    one, two, three = regexp("oe2003"), regexp("sp4"), regexp("oe2203")

    assert kernels.first((one, two, three), kernels.Machine(SP4)) is two
    assert kernels.first((one, three, two), kernels.Machine(SP4)) is three
    assert kernels.first((one,), kernels.Machine(SP4)) is None
    assert kernels.first((), kernels.Machine(SP4)) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (literal(SP4), literal(SP4)),
        (literal(SP4), literal(f"{SP4}+")),
        (regexp("sp4"), literal(SP4)),
        (regexp("^5"), literal(SP4)),
        (regexp("sp[1-4]"), regexp("sp[1-4]")),
        (regexp(".*"), regexp("sp4")),
        (regexp("^.*$"), regexp("^sp4")),
        (regexp("."), regexp("sp4$")),
        (regexp("(sp4)?"), regexp("oe2403")),
        (regexp("oe2203"), regexp("oe2203sp4")),
        (regexp("oe2203"), regexp(r"^5\.10\.0-216\.oe2203sp4\.aarch64$")),
        (regexp(r"5.10"), regexp(r"5\.10\.0")),
        (regexp("sp[1-4]"), regexp("oe2203sp4")),
        (regexp(r"^5\.10"), regexp(r"^5\.10\.0-216")),
        (regexp(r"sp4\.aarch64$"), regexp(r"oe2203sp4\.aarch64$")),
        (regexp(r"(?i)OE2203\b"), regexp("^oe2203$")),
    ],
)
def test_a_mapping_is_hidden_by_one_that_takes_all_that_it_could_take(
    earlier: definitions.KernelMapping, later: definitions.KernelMapping
) -> None:
    assert list(kernels.shadowed((earlier, later))) == [(1, 0)]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (literal(SP4), regexp("sp4")),
        (literal("5.10.0"), literal(SP4)),
        (regexp("oe2203sp4"), regexp("oe2203")),
        (regexp("^5"), regexp("5")),
        (regexp("^10"), regexp(r"^5\.10")),
        (regexp("^5$"), regexp("^5")),
        (regexp("^5"), regexp("5$")),
        (regexp("^5"), regexp("^6|5")),
        (regexp("sp4$"), regexp("sp4")),
        (regexp(r"\bsp4"), regexp("sp4")),
        (regexp("(?i)sp4"), regexp("sp")),
        (regexp(r"5\.10"), regexp("5.10")),
        (regexp("sp4"), regexp("sp4|sp3")),
        (regexp("(sp4"), literal(SP4)),
    ],
)
def test_a_mapping_that_can_take_a_kernel_is_not_called_hidden(
    earlier: definitions.KernelMapping, later: definitions.KernelMapping
) -> None:
    assert list(kernels.shadowed((earlier, later))) == []


def test_a_hidden_mapping_is_told_with_the_first_that_hides_it() -> None:
    mappings = (regexp("oe2403"), regexp("oe"), regexp(".*"), regexp("oe2203"))

    assert list(kernels.shadowed(mappings)) == [(3, 1)]


ATOMS = st.sampled_from(["a", "b", "ab", ".", r"\.", "^", "$", "a*", "a+", "b?", "[ab]", "[^a]", "(a|b)", "|", r"\b"])
PATTERNS = st.lists(ATOMS, min_size=1, max_size=5).map("".join)
VERSIONS = st.text("ab.", min_size=1, max_size=6)


@settings(max_examples=effort.examples(gate=66, long=400), deadline=None)
@given(earlier=PATTERNS, later=PATTERNS, version=VERSIONS)
def test_a_hidden_mapping_takes_no_kernel(earlier: str, later: str, version: str) -> None:
    mappings = (regexp(earlier), regexp(later, "b"))

    if list(kernels.shadowed(mappings)):
        assert kernels.first(mappings, kernels.Machine(kernels.cleaned(version) or "a")) is not mappings[1]


JAMMY = {"os": {"id": "ubuntu", "versions": ["22.04"]}}
UBUNTU = {"os": {"id": "ubuntu"}}
RHEL = {"os": {"id": "rhel", "versions": ["9.4", "9.5"]}}


@pytest.mark.parametrize(
    ("system", "version", "taken"),
    [("ubuntu", "22.04", "jammy"), ("ubuntu", "24.04", "ubuntu"), ("rhel", "9.5", "any"), ("", "", "any")],
)
def test_the_first_mapping_of_a_kernel_and_a_system_takes_a_node(system: str, version: str, taken: str) -> None:
    mappings = [mapping(name="jammy", regexp=".", **JAMMY), mapping(name="ubuntu", regexp=".", **UBUNTU)]
    mappings.append(mapping(name="any", regexp="."))

    found = kernels.first(mappings, kernels.Machine(SP4, system, version))

    assert found is not None and found.name == taken
    assert [one.name for one in kernels.possible(mappings, SP4)] == ["jammy", "ubuntu", "any"]


@pytest.mark.parametrize(
    ("earlier", "later", "shadowed"),
    [
        ({}, JAMMY, True),
        (UBUNTU, JAMMY, True),
        (JAMMY, JAMMY, True),
        (JAMMY, UBUNTU, False),
        (JAMMY, {}, False),
        (JAMMY, RHEL, False),
        (RHEL, {"os": {"id": "rhel", "versions": ["9.4"]}}, True),
        (RHEL, {"os": {"id": "rhel", "versions": ["9.4", "10"]}}, False),
    ],
)
def test_a_mapping_of_a_system_that_an_earlier_one_has_takes_no_node(
    earlier: dict[str, Any], later: dict[str, Any], shadowed: bool
) -> None:
    mappings = [mapping(name="a", regexp=".", **earlier), mapping(name="b", regexp="6", **later)]

    assert list(kernels.shadowed(mappings)) == ([(1, 0)] if shadowed else [])
    assert len(list(kernels.possible(mappings, "6.6"))) == (1 if shadowed else 2)
