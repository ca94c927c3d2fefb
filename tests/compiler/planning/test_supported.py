"""Supported releases of NFD and Kubernetes."""

import pytest

from compiler.planning import supported


@pytest.mark.parametrize(
    ("tag", "minor"),
    [
        ("v0.16.4", 16),
        ("0.19.0", 19),
        ("v0.17", 17),
        ("v0.18.1-minimal", 18),
        ("v0.15.9", None),
        ("v0.20.0", None),
        ("v0.160", None),
        ("v1.16.0", None),
        ("latest", None),
        ("", None),
    ],
)
def test_nfd_is_rendered_for_the_releases_that_are_known(tag: str, minor: int | None) -> None:
    assert supported.nfd_minor(tag) == minor


@pytest.mark.parametrize(
    ("version", "minor"),
    [("1.25", 25), ("v1.31.4", 31), ("v1.28.3+k3s1", 28), ("v1.30.0-eks-1", 30), ("", 0), ("x", 0)],
)
def test_the_minor_release_is_read_from_any_version(version: str, minor: int) -> None:
    assert supported.kubernetes_minor(version) == minor
