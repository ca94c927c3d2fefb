"""Rules for images: what names one, that it is pinned, and where it is written."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import images
from tests import builders

SHA = f"sha256:{'0' * 64}"


def findings(name: str = "driver", **component: Any) -> list[diagnostics.Diagnostic]:
    """Return the findings of a component's image, which is pinned unless the arguments change it."""
    item = builders.policy(**{name: builders.PINNED[name] | component})
    judged = images.of_driver(builders.variants(item)) if name == "driver" else images.of_device_plugin(item)
    return list(diagnostics.merged(judged))


def codes(name: str = "driver", **component: Any) -> list[str]:
    return builders.codes(findings(name, **component))


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"version": "2.2.0"}, []),
        ({"version": SHA}, []),
        ({"version": "latest"}, ["mutable-tag"]),
        ({"repository": "", "version": "2.2.0"}, ["image-reference"]),
        ({"repository": "r.test/x", "version": ""}, ["image-reference"]),
        ({"repository": "", "version": "", "image": "r.test/x:1"}, []),
        ({"repository": "", "version": "", "image": "r.test/x"}, ["mutable-tag"]),
        ({"repository": "", "version": "", "image": "r.test/x:latest"}, ["mutable-tag"]),
        ({"repository": "", "version": "", "image": f"r.test/x@{SHA}"}, []),
        ({"repository": "", "version": "", "image": ""}, ["image-reference"]),
        ({"repository": "R.test/X"}, ["image-reference"]),
        ({"version": "sha256:0"}, ["image-reference"]),
        ({"version": "-1"}, ["image-reference"]),
        ({"repository": "r.test:5000/a//b"}, ["image-reference"]),
        ({"repository": "r.test:5000/a/b/"}, []),
    ],
)
@pytest.mark.parametrize("name", ["driver", "devicePlugin"])
def test_parts_of_an_image_name_one_that_is_pinned(name: str, part: dict[str, Any], code: list[str]) -> None:
    assert codes(name, **part) == code


OPERATOR = "cr.openfuyao.cn/openfuyao"


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"repository": OPERATOR}, f"repository: {OPERATOR}"),
        ({"repository": f"{OPERATOR}/"}, f"repository: {OPERATOR}/"),
        ({"repository": OPERATOR, "version": SHA}, f"repository: {OPERATOR}"),
        (
            {"repository": "", "version": "", "image": f"{OPERATOR}/kae-driver-installer:v0.1"},
            f"image: {OPERATOR}/kae-driver-installer:v0.1",
        ),
        ({"repository": "r.test/x", "image": "kae-operator"}, "repository: r.test/x"),
    ],
)
def test_an_image_of_the_operator_is_told_where_it_is_written(part: dict[str, Any], shown: str) -> None:
    (diagnostic,) = findings(**part)

    assert (diagnostic.code, diagnostic.span.text.strip()) == ("operator-image", shown)


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"repository": "r.test/x"},
        {"repository": f"{OPERATOR}/own"},
        {"repository": OPERATOR, "image": "own"},
        {"repository": "", "version": "", "image": "r.test:5000/kae-driver-installer:1"},
    ],
)
def test_an_image_that_is_not_the_operators_is_sound(part: dict[str, Any]) -> None:
    assert codes(**part) == []


def test_an_image_that_is_not_used_is_not_judged() -> None:
    assert codes(enabled=False, version="latest") == []


MAPPING = {"name": "a", "regexp": "a"}
WAVE = {"name": "w", "percent": 5}
FROZEN = {"name": "f", "nodes": ["n"], "version": "2.1.0"}
WHOLE = {"repository": "", "version": "", "image": "r.test/x:1"}


@pytest.mark.parametrize(
    ("driver", "code", "shown"),
    [
        ({"kernelMappings": [MAPPING | {"version": "latest"}]}, "mutable-tag", "version: latest"),
        ({"rollout": {"waves": [WAVE | {"version": "latest"}]}}, "mutable-tag", "version: latest"),
        ({"rollout": {"frozen": [FROZEN | {"version": "latest"}]}}, "mutable-tag", "version: latest"),
        ({"rollout": {"waves": [WAVE | {"version": "-1"}]}}, "image-reference", 'version: "-1"'),
        ({"rollout": {"waves": [WAVE | {"image": "A"}]}}, "image-reference", "image: A"),
        ({"rollout": {"waves": [WAVE | {"repository": "A"}]}}, "image-reference", "repository: A"),
        ({**WHOLE, "rollout": {"waves": [WAVE | {"image": "r.test/x"}]}}, "mutable-tag", "image: r.test/x"),
        ({**WHOLE, "rollout": {"waves": [WAVE | {"version": "2"}]}}, "image-reference", 'repository: ""'),
        ({"rollout": {"waves": [WAVE | {"repository": ""}]}}, "image-reference", 'repository: ""'),
    ],
)
def test_the_image_of_some_nodes_is_judged_where_it_is_written(driver: dict[str, Any], code: str, shown: str) -> None:
    (diagnostic,) = findings(**driver)

    assert (diagnostic.code, diagnostic.span.text.strip(" -")) == (code, shown)


@pytest.mark.parametrize(
    ("repository", "hint"),
    [
        ("https://r.test/x", "Write it without 'https://': an image reference has no scheme."),
        ("r.test/x:1.2", "Write r.test/x, and '1.2' as version: a repository has no tag."),
        ("r.test:5000/x:1.2", "Write r.test:5000/x, and '1.2' as version: a repository has no tag."),
        ("r.test/X", "Write registry and names in lower case, such as registry.example.com/openfuyao."),
    ],
)
def test_a_repository_that_waves_share_is_wrong_once_with_the_way_out(repository: str, hint: str) -> None:
    waves = [{"name": f"w{bound}", "percent": bound, "version": f"2.3.{bound}"} for bound in (5, 50)]

    (diagnostic,) = findings(repository=repository, rollout={"waves": waves})

    assert (diagnostic.code, diagnostic.hint) == ("image-reference", hint)


def test_a_part_that_is_to_be_pinned_is_named_with_its_place_in_lists() -> None:
    (diagnostic,) = findings(rollout={"waves": [WAVE, {"name": "x", "percent": 9, "version": "latest"}]})

    assert diagnostic.hint.startswith("Set driver.rollout.waves[1].version to ")


def test_a_version_that_every_mapping_replaces_is_not_judged() -> None:
    assert codes(version="latest", kernelMappings=[MAPPING | {"version": "2.3.0"}]) == []
    assert codes(version="latest", kernelMappings=[MAPPING | {"version": "2.3.0"}, MAPPING]) == ["mutable-tag"]


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"version": "2.3.0-${KERNEL_FULL_VERSION}"}, []),
        ({"image": "kae-${KERNEL_XYZ}"}, []),
        ({"version": "${KERNEL_XYZ}", "image": "kae-${KERNEL_FULL_VERSION}"}, []),
        ({"version": f"{SHA}${{KERNEL_XYZ}}"}, ["image-reference"]),
        ({"version": "-${KERNEL_XYZ}"}, ["image-reference"]),
        ({"version": "${KERNEL_FULL_VERSION}" * 6}, ["image-reference"]),
    ],
)
def test_an_image_that_is_named_after_kernels_is_judged_with_one(part: dict[str, Any], code: list[str]) -> None:
    assert codes(kernelMappings=[MAPPING | part]) == code
