"""Globs of which one name or one path can match both."""

import pytest

from compiler.formats import globs


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        *(("a", "a", True), ("a", "b", False), ("*", "", True), ("a*", "*b", True), ("a*c", "*b", False)),
        *(("[ab]", "[bc]", True), ("[!a]", "a", False), ("[!ab]x", "?x", True), ("[]a]", "a", True)),
        *(("a?", "a", False), ("[x", "[x", True), ("*a*a*", "b*b", True), ("[a-c]*", "d*", False)),
        *(("?~", "a~", True), ("[!a]]", "b]", True), ("[]a]", "]", True)),
    ],
)
def test_two_globs_meet_where_one_name_fits_both(one: str, other: str, meet: bool) -> None:
    assert globs.share_name(one, other) == globs.share_name(other, one) == meet


@pytest.mark.parametrize(
    ("one", "other", "path", "branch"),
    [
        ("/dev/npu*", "/dev/npu0", True, True),
        ("/dev/npu*", "/dev/*1", True, True),
        ("/dev/npu*", "/dev", False, True),
        ("/dev/npu", "/dev/npu/a", False, True),
        ("/dev/npu*", "/dev/gpu/a", False, False),
    ],
)
def test_two_globs_meet_at_one_path_or_at_a_folder_of_it(one: str, other: str, path: bool, branch: bool) -> None:
    assert (globs.share_path(one, other), globs.share_branch(one, other)) == (path, branch)
    assert (globs.share_path(other, one), globs.share_branch(other, one)) == (path, branch)


@pytest.mark.parametrize("path", ["/sys", "/sys/", "//sys", "///sys//.", "/opt/../sys", "/../sys"])
def test_a_path_has_one_normal_form(path: str) -> None:
    assert globs.normal(path) == "/sys"
    assert globs.normal(f"{path}/*") == "/sys/*"
