"""The names of Dynamic Resource Allocation."""

from runtime import dra


def test_classes_are_named_after_their_resources() -> None:
    named = {name: dra.device_class(name) for name in ("openfuyao.com/kae.hpre", "example.com/npu", "example.com/n-1")}

    assert list(named.values()) == ["kae.hpre.openfuyao.com", "npu.example.com", "n-1.example.com"]


def test_no_two_resources_have_one_class() -> None:
    like = [
        *("openfuyao.com/kae.hpre", "hpre.openfuyao.com/kae", "kae.openfuyao.com/hpre"),
        *("example.com/a.b", "b.example.com/a", "example.com/a_b", "example.com/a-b", "example.com/A-B"),
        "a-b.example.com/kae",
    ]

    assert len({dra.device_class(name) for name in like}) == len(like)
