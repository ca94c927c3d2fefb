"""The cache between compiles: quick, and never trusted where it could be wrong."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.output import cache, tree, write

EAST = tree.Tree.of("east", {"images.txt": "x\n", "driver/a.yaml": "a\n"})
LATER_NS = 10_000_000_000


def after(path: Path, nanoseconds: int) -> Callable[[], int]:
    """A clock that stands so long after the last change of a file."""
    return lambda: max(path.stat().st_mtime_ns, path.stat().st_ctime_ns) + nanoseconds


def rewritten_in_the_same_tick(path: Path, content: bytes) -> None:
    """Other content under the old size and modification time."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Counting(cache.Digests):
    """Digests that count how often a file is read."""

    reads = 0

    def _read(self, path: str, full: Path) -> str:
        self.reads += 1
        return super()._read(path, full)


def test_a_file_is_read_once_as_long_as_it_stays_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    digests = Counting(tmp_path, now=after(tmp_path / "a", LATER_NS))

    assert [digests.of("a"), digests.of("a")] == [tree.digest(b"a")] * 2
    assert (digests.reads, digests.changed) == (1, True)


@pytest.mark.parametrize(("age_ns", "mtime_ns", "reads"), [(49_000_000, None, 2), (51_000_000, None, 1), (0, 0, 2)])
def test_a_file_that_just_changed_is_read_again(tmp_path: Path, age_ns: int, mtime_ns: int | None, reads: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    if mtime_ns is not None:
        os.utime(path, ns=(mtime_ns, mtime_ns))
    digests = Counting(tmp_path, now=after(path, age_ns))
    digests.of("a")
    digests.of("a")

    assert digests.reads == reads


def test_a_file_system_without_fractions_of_seconds_gets_more_time() -> None:
    second = 1_000_000_000
    stamps = [(1, second, second, 1), (1, second, second + 1, 1)]

    assert [cache._is_settled(stamp, second + 60_000_000) for stamp in stamps] == [False, True]
    assert [cache._is_settled(stamp, 3 * second) for stamp in stamps] == [True, True]


def test_other_content_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    os.utime(path, ns=(1, 1))
    digests = cache.Digests(tmp_path, now=after(path, LATER_NS))
    before = digests.of("a")
    rewritten_in_the_same_tick(path, b"b")

    assert [before, digests.of("a")] == [tree.digest(b"a"), tree.digest(b"b")]


def test_the_digest_of_an_absent_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    digests = cache.Digests(tmp_path)

    with pytest.raises(FileNotFoundError):
        digests.of("a")


def filled(root: Path) -> cache.Cache:
    (root / "a").write_bytes(b"a")
    digests = cache.Digests(root, now=after(root / "a", LATER_NS))
    digests.of("a")
    record = cache.Record(key=cache.key("x"), diagnostics=({"code": "mutable-tag"},), tree="1")
    return cache.Cache(digests=digests, overall=record, clusters={"east": record})


def is_empty(loaded: cache.Cache) -> bool:
    return loaded.overall is None and not loaded.clusters and not loaded.digests.worth_keeping()


def test_a_saved_cache_is_found_again(tmp_path: Path) -> None:
    saved = filled(tmp_path)
    cache.save(tmp_path, saved)
    loaded = cache.load(tmp_path)

    assert (loaded.overall, loaded.clusters) == (saved.overall, saved.clusters)
    assert loaded.digests.worth_keeping() == saved.digests.worth_keeping()
    assert not loaded.digests.changed


def test_a_cache_hides_itself_from_git_and_from_backups(tmp_path: Path) -> None:
    cache.save(tmp_path, filled(tmp_path))

    assert (tmp_path / ".kae_cache/.gitignore").read_text() == "*\n"
    assert (
        (tmp_path / ".kae_cache/CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    )
    assert sorted(path.name for path in (tmp_path / ".kae_cache").iterdir()) == [
        ".gitignore",
        "CACHEDIR.TAG",
        "results.json",
    ]


def test_a_cache_outlives_the_next_save_and_forgets_files_that_are_gone(tmp_path: Path) -> None:
    cache.save(tmp_path, filled(tmp_path))
    cache.save(tmp_path, cache.load(tmp_path))
    kept = [*cache.load(tmp_path).digests.worth_keeping()]
    (tmp_path / "a").unlink()
    cache.save(tmp_path, cache.load(tmp_path))

    assert kept == ["a"]
    assert json.loads((tmp_path / ".kae_cache/results.json").read_text().splitlines()[1])["files"] == []


def test_a_project_without_a_cache_has_an_empty_one(tmp_path: Path) -> None:
    assert is_empty(cache.load(tmp_path))


@pytest.mark.parametrize("damage", ["", "{}", "{}\n{}", "[" * 50_000 + "\n", "\x00", None])
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, damage: str | None) -> None:
    cache.save(tmp_path, filled(tmp_path))
    path = tmp_path / ".kae_cache/results.json"
    path.write_text(path.read_text().replace("mutable-tag", "mutable-tub") if damage is None else damage)

    assert is_empty(cache.load(tmp_path))


def test_a_cache_that_lost_any_byte_is_an_empty_one(tmp_path: Path) -> None:
    cache.save(tmp_path, filled(tmp_path))
    path = tmp_path / ".kae_cache/results.json"
    whole = path.read_bytes()

    for place in range(len(whole)):
        path.write_bytes(whole[:place] + whole[place + 1 :])
        assert is_empty(cache.load(tmp_path)), place


def test_a_cache_that_was_written_elsewhere_is_not_believed(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    cache.save(here, filled(here))
    (there / ".kae_cache").mkdir()
    for name in (".gitignore", "CACHEDIR.TAG", "results.json"):
        shutil.copy2(here / ".kae_cache" / name, there / ".kae_cache" / name)

    assert not is_empty(cache.load(here))
    assert is_empty(cache.load(there))


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / ".kae_cache").write_text("")
    cache.save(tmp_path, filled(tmp_path))

    assert is_empty(cache.load(tmp_path))


def test_a_linked_cache_folder_is_never_written_to(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / ".kae_cache").symlink_to(outside)
    cache.save(root, filled(root))

    assert list(outside.iterdir()) == []


def test_what_a_save_that_died_left_behind_is_swept(tmp_path: Path) -> None:
    cache.save(tmp_path, filled(tmp_path))
    (tmp_path / ".kae_cache/results.json.1").write_text("half")
    cache.save(tmp_path, filled(tmp_path))

    assert not (tmp_path / ".kae_cache/results.json.1").exists()


def test_a_key_depends_on_every_part_and_on_no_order_of_keys() -> None:
    same = {cache.key("a", {"b": 1, "c": [2]}), cache.key("a", {"c": [2], "b": 1})}
    other = {cache.key("a", {"b": 1, "c": [3]}), cache.key("a"), cache.key("a", "b"), cache.key("ab")}

    assert (len(same), len(other | same)) == (1, 5)


def test_the_fingerprint_changes_with_the_files_of_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_bytes(b"a")
    digests = cache.Digests(tmp_path)
    first = cache.fingerprint(digests, [tmp_path])
    (tmp_path / "sub/__pycache__").mkdir()
    (tmp_path / "sub/__pycache__/a.cpython-311.pyc").write_bytes(b"a")
    second = cache.fingerprint(digests, [tmp_path])
    rewritten_in_the_same_tick(tmp_path / "sub/a.py", b"b")
    third = cache.fingerprint(digests, [tmp_path])
    (tmp_path / "sub/a.py").rename(tmp_path / "sub/b.py")
    fourth = cache.fingerprint(digests, [tmp_path])

    assert first == second
    assert len({second, third, fourth}) == 3


def test_the_fingerprint_follows_links_to_files_and_passes_over_links_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/a.py").symlink_to("../store")
    digests = cache.Digests(tmp_path)
    first = cache.fingerprint(digests, [tmp_path / "package"])
    (tmp_path / "package/.#a.py").symlink_to("someone@host.1")
    second = cache.fingerprint(digests, [tmp_path / "package"])
    rewritten_in_the_same_tick(tmp_path / "store", b"b")

    assert first == second != cache.fingerprint(digests, [tmp_path / "package"])


def test_the_fingerprint_does_not_depend_on_where_the_compiler_lies(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_bytes(b"a")
    digests = cache.Digests(tmp_path)

    assert len({cache.fingerprint(digests, [tmp_path / name]) for name in ("here", "there")}) == 1


def test_the_fingerprint_changes_with_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = cache.Digests(tmp_path)
    before = cache.fingerprint(digests, [])
    (tmp_path / "jinja2-99.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    assert cache.fingerprint(digests, []) != before


def test_an_output_as_it_was_written_is_vouched_for(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [EAST])
    digests = cache.Digests(tmp_path)

    assert cache.verify(digests, tmp_path / "east", cache.Record(key="", tree=cache.tree_digest(EAST)))


def edit(folder: Path) -> None:
    rewritten_in_the_same_tick(folder / "images.txt", b"y\n")


def add(folder: Path) -> None:
    (folder / "driver/mine.yaml").touch()


def remove(folder: Path) -> None:
    (folder / "driver/a.yaml").unlink()


def link(folder: Path) -> None:
    (folder / "images.txt").rename(folder.parent / "images.txt")
    (folder / "images.txt").symlink_to(folder.parent / "images.txt")


def link_all(folder: Path) -> None:
    folder.rename(folder.parent / "west")
    folder.symlink_to("west")


def remove_all(folder: Path) -> None:
    shutil.rmtree(folder)


def forget_the_index(folder: Path) -> None:
    (folder / "index.json").unlink()


def rewrite(folder: Path) -> None:
    write.write_trees(folder.parent, [tree.Tree.of("east", {"images.txt": "y\n"})])


@pytest.mark.parametrize("change", [edit, add, remove, link, link_all, remove_all, forget_the_index, rewrite])
def test_an_output_that_changed_is_not_vouched_for(tmp_path: Path, change: Callable[[Path], None]) -> None:
    write.write_trees(tmp_path, [EAST])
    digests = cache.Digests(tmp_path, now=after(tmp_path / "east/images.txt", LATER_NS))
    record = cache.Record(key="", tree=cache.tree_digest(EAST))
    before = cache.verify(digests, tmp_path / "east", record)
    change(tmp_path / "east")

    assert (before, cache.verify(digests, tmp_path / "east", record)) == (True, False)


def test_unchanged_input_is_told_without_the_libraries_of_the_compiler(tmp_path: Path, repository_root: Path) -> None:
    write.write_trees(tmp_path, [EAST])
    record = cache.Record(key="", tree=cache.tree_digest(EAST))
    cache.save(tmp_path, filled(tmp_path)._replace(clusters={"east": record}))
    code = (
        "import sys; from pathlib import Path; from compiler.output import cache, scan, tree, write\n"
        "loaded = cache.load(Path.cwd())\n"
        "fine = cache.verify(loaded.digests, Path('east'), loaded.clusters['east'])\n"
        "cache.fingerprint(loaded.digests, [])\n"
        "heavy = {'pydantic', 'jinja2', 'jsonschema', 'jsonschema_rs', 'yaml', 're2'} & sys.modules.keys()\n"
        "print(fine, sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(repository_root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("True []\n", "")
