"""A program of another release is told by the tag of its image, where that is a release at all."""

import pytest

from compiler.status import cluster_status

PLUGIN = "registry.example.com:5000/team/kae-device-plugin"


@pytest.mark.parametrize(
    ("image", "compiler", "release"),
    [
        (f"{PLUGIN}:0.1.0", "0.2.0", "0.1.0"),
        (f"{PLUGIN}:v0.1.0", "0.2.0", "0.1.0"),
        (f"{PLUGIN}:0.3.0-5.g1a2b3c4d5e6f", "0.2.0+1.g1a2b3c4d5e6f", "0.3.0"),
        ("kae-watcher:0.1.0", "0.2.0", "0.1.0"),
        (f"{PLUGIN}:0.2.0", "0.2.0", None),
        (f"{PLUGIN}:0.2.0-5.g1a2b3c4d5e6f", "0.2.0", None),
        (f"{PLUGIN}:0.1.0", "0+g1a2b3c4d5e6f", None),
        (f"{PLUGIN}:latest", "0.2.0", None),
        (f"{PLUGIN}:1.4.1.2", "0.2.0", None),
        (f"{PLUGIN}:0.1.0@sha256:{'0' * 64}", "0.2.0", None),
        (f"{PLUGIN}@sha256:{'0' * 64}", "0.2.0", None),
        ("registry.example.com/team/kae-driver-installer:2.3.0", "0.2.0", None),
        ("registry.k8s.io/nfd/node-feature-discovery:0.17.3", "0.2.0", None),
    ],
)
def test_a_release_is_read_from_a_tag_of_a_program(image: str, compiler: str, release: str | None) -> None:
    skews = cluster_status.skews_of([("kae-device-plugin-tls", image)], compiler)

    assert [(program.name, program.image, program.release) for program in skews] == (
        [("kae-device-plugin-tls", image, release)] if release else []
    )


@pytest.mark.parametrize(
    ("image", "is_skewed"),
    [
        (f"{PLUGIN}@sha256:{'1' * 64}", False),
        (f"{PLUGIN}@sha256:{'2' * 64}", True),
        (f"mirror.example.com/kae-device-plugin:0.2.0@sha256:{'2' * 64}", True),
        (f"registry.example.com/team/kae-driver-installer@sha256:{'2' * 64}", False),
    ],
)
def test_a_digest_is_compared_with_that_of_the_release(image: str, is_skewed: bool) -> None:
    digests = {"kae-device-plugin": f"sha256:{'1' * 64}", "kae-driver-installer": f"sha256:{'1' * 64}"}

    skews = cluster_status.skews_of([("kae-device-plugin-tls", image)], "0.2.0", digests)

    assert [(program.image, program.release) for program in skews] == ([(image, "")] if is_skewed else [])


def test_pods_of_one_image_are_told_once() -> None:
    skews = cluster_status.skews_of([("a", f"{PLUGIN}:0.1.0")] * 3 + [("a", f"{PLUGIN}:0.1.1")], "0.2.0")

    assert [program.release for program in skews] == ["0.1.0", "0.1.1"]
