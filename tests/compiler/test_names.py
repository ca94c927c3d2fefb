"""Valid names of clusters, and the stem of a file's name."""

import pytest

from compiler import names


@pytest.mark.parametrize("name", ["east", "e", "1", "east-1", "east.example.com", "a" * 50])
def test_a_cluster_has_a_dns_name(name: str) -> None:
    assert names.is_cluster(name)


@pytest.mark.parametrize(
    "name", ["", "East", "east_1", "-east", "east-", ".east", "east.", "a..b", "a/b", "..", "east\n", "ö", "a" * 51]
)
def test_a_cluster_has_no_other_name(name: str) -> None:
    assert not names.is_cluster(name)


@pytest.mark.parametrize(
    ("file", "stem"),
    [("inventory/east.json", "east"), ("east.yaml", "east"), ("a/b/east.example.com.yml", "east.example.com")],
)
def test_the_stem_is_the_name_without_folders_and_the_last_extension(file: str, stem: str) -> None:
    assert names.stem(file) == stem
