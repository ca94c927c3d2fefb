"""Names of images, their mirrors, and tags that can move."""

from typing import Any

import pytest

from compiler.fleet import clusters
from compiler.planning import images
from tests import builders

DIGEST = f"sha256:{'a' * 64}"


def mirrors(**pairs: str) -> tuple[clusters.Mirror, ...]:
    """Mirrors by prefix, `_` for a slash."""
    return tuple(clusters.Mirror(from_=key.replace("_", "/"), to=to) for key, to in pairs.items())


@pytest.mark.parametrize(
    ("parts", "reference"),
    [
        ({"version": "2.2.0"}, "cr.openfuyao.cn/openfuyao/kae-driver-installer:2.2.0"),
        ({"repository": "example.com:5000/team/", "version": "1"}, "example.com:5000/team/kae-driver-installer:1"),
        ({"version": DIGEST}, f"cr.openfuyao.cn/openfuyao/kae-driver-installer@{DIGEST}"),
        ({"repository": "", "version": "", "image": "example.com/x:1"}, "example.com/x:1"),
        ({"repository": "", "version": "", "image": f"example.com/x@{DIGEST}"}, f"example.com/x@{DIGEST}"),
    ],
)
def test_repository_image_and_version_make_a_reference(parts: dict[str, Any], reference: str) -> None:
    driver = builders.policy(driver=parts).driver

    assert driver is not None
    assert images.reference(driver.parts) == reference


@pytest.mark.parametrize(
    ("image", "behind"),
    [
        ("a/b/c:1", "long/c:1"),
        ("a/x:1", "short/x:1"),
        ("a/bc:1", "short/bc:1"),
        ("ab/c:1", "ab/c:1"),
        ("a:1", "short:1"),
        (f"a@{DIGEST}", f"short@{DIGEST}"),
        ("a", "short"),
        ("x/a/b:1", "x/a/b:1"),
    ],
)
def test_the_longest_prefix_that_ends_where_a_part_ends_is_mirrored(image: str, behind: str) -> None:
    chosen = mirrors(a="short", a_b="long")

    assert images.mirrored(image, chosen) == behind
    assert images.mirrored(image, chosen[::-1]) == behind


@pytest.mark.parametrize(("from_", "to"), [("a", "m"), ("a/", "m"), ("a", "m/"), ("a/", "m/")])
def test_a_slash_at_the_end_of_a_mirror_changes_nothing(from_: str, to: str) -> None:
    assert images.mirrored("a/b:1", [clusters.Mirror(from_=from_, to=to)]) == "m/b:1"


def test_an_image_is_mirrored_once() -> None:
    assert images.mirrored("a/x:1", mirrors(a="b", b="c")) == "b/x:1"


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("a/b:1.2", "1.2"),
        ("a/b", "latest"),
        ("example.com:5000/b", "latest"),
        ("example.com:5000/b:1", "1"),
        (f"a/b@{DIGEST}", None),
        (f"a/b:1@{DIGEST}", None),
    ],
)
def test_the_tag_is_what_the_registry_would_be_asked_for(image: str, tag: str | None) -> None:
    assert images.tag(image) == tag


@pytest.mark.parametrize("end", ["", ":1.0", f"@{DIGEST}", f":1.0@{DIGEST}"])
def test_a_name_has_no_tag_and_no_digest(end: str) -> None:
    assert images.name(f"r.test:5000/a/kae{end}") == "r.test:5000/a/kae"
