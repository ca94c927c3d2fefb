"""Acts of a stranger in a project: links, names, foreign files, damage. Each leaves its traces below a folder."""

import contextlib
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Act = Callable[[random.Random, Path], None]
"""Changes a project at random; raises OSError where an earlier act stands in its way."""

TOPS = ("policies", "inventory", "output", "output/east", "output/east/driver", "output/west", ".kae_cache")
OUTSIDE = ("secret.yaml", "secret.json", "secret", "folder", "folder/secret.yaml")
_TARGETS = (
    *("/proc/self/environ", "/proc/kmsg", "/dev/zero", "/dev/full", "/proc", "/", "/proc/self/root", "/proc/self/cwd"),
    *("nowhere", ".", "..", "../..", "loop.yaml", "../.git/config", "../.git", "/proc/self/fd/0", "/dev/stdin"),
)
_NAMES = (
    *(b"a\nb.yaml", b"\x1b[2J.yaml", b"caf\xe9.json", b"::error::x.yaml", b"-rf.yaml", b"\xff", b"a\tb", b" .yaml"),
    *("\u202egnp.yaml".encode(), b"%0A.json", b"..yaml", b"...", b"x" * 250 + b".yaml", b"CON.yaml", b"$(id).yaml"),
    *(b"POLICY.YAML", b"a.yaml~", b"kae.yml", b"'\".yaml", b"*.yaml", b"#a.yaml#", b"\x7f.yml", b"east.json.kae-tmp"),
)
_DEEP = "d"
_ENGINE = (
    *(".argocd-source.yaml", ".argocd-source-east.yaml", "kustomization.yaml", "Kustomization", "Chart.yaml"),
    *(".sourceignore", ".krmignore", "README.md", "new/a.yaml", ".hidden", "index.json", "east/extra.yaml"),
)
_HOSTILE = (
    *("../../outside", "/etc/passwd", "$(NAME)", "${x}", "\u202e", "\ud800", "x" * 5000, "..", "-", "0x1F", "null"),
    *("{{ 7 }}", "{% include 'x' %}", "<<<<<<< HEAD", "!!python/object:os.system x", "*alias", "&a [*a]", "\x00", "\t"),
)


def entries(folder: Path) -> list[Path]:
    """Return what lies below a folder, without .git, which no commit holds, and without what `deepen` made."""
    found, pending = [], [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as inside:
            for entry in inside:
                if entry.name not in (".git", _DEEP):
                    found.append(Path(entry.path))
                    pending += [found[-1]] if entry.is_dir(follow_symlinks=False) else []
    return sorted(found)


def _files(draw: random.Random, folder: Path, *tops: str) -> Iterator[Path]:
    """Yield a few of the files below folders of a project."""
    files = [path for top in tops for path in entries(folder / top) if path.is_file() and not path.is_symlink()]
    yield from draw.sample(files, min(len(files), draw.choice((1, 1, 3))))


def _place(draw: random.Random, folder: Path) -> Path:
    """Return the path of a new file, or of one that is there."""
    top = folder / draw.choice(TOPS)
    named = draw.choice(("a.yaml", "b.json", "c.yml", "x", "index.json", "tls.yaml", "east.json", "readme.md"))
    return draw.choice([top / named, *entries(folder)])


def _emptied(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _target(draw: random.Random, folder: Path, place: Path) -> str:
    inside = draw.choice(entries(folder))
    outside = folder.parent / "outside" / draw.choice(OUTSIDE)
    found = draw.choice((outside, inside, outside.parent))
    relative = os.path.relpath(found, place.parent)
    return draw.choice((str(found), relative, relative, draw.choice(_TARGETS)))


def link(draw: random.Random, folder: Path) -> None:
    place = _place(draw, folder)
    target = _target(draw, folder, place)
    _emptied(place).symlink_to(target)


def link_top(draw: random.Random, folder: Path) -> None:
    """Put a link in the place of a whole folder, or of kae.yaml."""
    place = folder / draw.choice((*TOPS, "kae.yaml"))
    target = _target(draw, folder, place)
    if draw.random() < 0.5 and place.is_dir():
        place.rename(folder / f"real-{draw.randrange(1000)}")
    _emptied(place).symlink_to(target)


def link_temporary(draw: random.Random, folder: Path) -> None:
    """Put a link where a compile writes before it renames."""
    for path in _files(draw, folder, "output"):
        path.with_name(f"{path.name}.kae-tmp").symlink_to(folder.parent / "outside/secret")


def rename(draw: random.Random, folder: Path) -> None:
    path = draw.choice(entries(folder))
    name = os.fsdecode(draw.choice(_NAMES))
    if draw.random() < 0.5:
        path.rename(path.with_name(name))
    elif draw.random() < 0.7:
        path.with_name(name).write_text("apiVersion: v1\n")
    else:
        path.with_name(name).mkdir()


def foreign(draw: random.Random, folder: Path) -> None:
    top = folder / draw.choice(("output", "output/east", "output/east/driver", "output/west", "policies"))
    path = top / draw.choice(_ENGINE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n")


def conflict(draw: random.Random, folder: Path) -> None:
    """Leave the marks of a merge in files, perhaps only some of them."""
    for path in [*_files(draw, folder, "policies", "inventory", "output"), folder / "kae.yaml"]:
        text = path.read_bytes() if path.exists() else b"output: output\n"
        at = draw.randrange(len(text) + 1)
        ours = b"\n<<<<<<< HEAD\n" if draw.random() < 0.8 else b""
        theirs = b"\n=======\n" + text[at : at + 40] + b"\n>>>>>>> other\n" if draw.random() < 0.8 else b""
        path.write_bytes(text[:at] + ours + text[at : at + 40] + theirs + text[at + 40 :])


def special(draw: random.Random, folder: Path) -> None:
    """Put a named pipe, a socket or a folder in the place of a file."""
    place = draw.choice((_place(draw, folder), folder / "kae.yaml", folder / ".kae_cache/results.json"))
    _emptied(place)
    match draw.randrange(3):
        case 0:
            os.mkfifo(place)
        case 1:
            place.mkdir()
        case _:
            with contextlib.chdir(place.parent), socket.socket(socket.AF_UNIX) as listener:
                listener.bind(place.name)


def deepen(draw: random.Random, folder: Path) -> None:
    """Make folders inside of each other, deeper than Python recurses, or than a path is long."""
    top = folder / draw.choice(TOPS)
    top.mkdir(parents=True, exist_ok=True)
    deep(top, draw.choice((30, 1200, 2500)), draw.choice(("a.yaml", "b")))


def deep(top: Path, depth: int, name: str) -> None:
    """Make a file so many folders below another; only `rm` removes them if there are many."""
    with contextlib.chdir(top):
        for _ in range(depth):
            Path(_DEEP).mkdir()
            os.chdir(_DEEP)
        Path(name).write_text("a: b\n")


def damage_index(draw: random.Random, folder: Path) -> None:
    path = folder / "output" / draw.choice(("east", "west")) / "index.json"
    text = path.read_text()
    paths = ('"../../../outside/secret"', '"/etc/passwd"', '"a/../../b"', '"\\u0000"', '"driver"', "7", '"a//b"', '""')
    damages = (
        *("", "{", "[]", "null", text[: draw.randrange(len(text))], "[" * 100_000, "\ufeff" + text, "1" * 5000),
        *(text.replace("[", f"[{draw.choice(paths)}, ", 1), text.replace('"version": ', '"version": 9', 1)),
        *(text.replace("true", '"yes"', 1), text.replace('"', "'"), text * 2),
    )
    path.write_text(draw.choice(damages))


def damage(draw: random.Random, folder: Path) -> None:
    """Change bytes of files, or all of them."""
    for path in _files(draw, folder, "policies", "inventory", "output", ".kae_cache"):
        content = path.read_bytes()
        at = draw.randrange(len(content) + 1)
        changes = (
            *(b"", b"\0", b"\xff\xfe", b"[" * 20_000, b"{" * 500, b"a: &a [*a]\n", b"%YAML 1.3\n---\n", b"\r"),
            *(b"- " * 3000, content[:at], content[:at] + draw.randbytes(9) + content[at:], content * 2, b"x" * 300_000),
        )
        path.write_bytes(draw.choice(changes))


def reword(draw: random.Random, folder: Path) -> None:
    """Replace a value of a document."""
    for path in _files(draw, folder, "policies", "inventory"):
        lines = path.read_bytes().split(b"\n")
        at = draw.randrange(len(lines))
        key, colon, _ = lines[at].partition(b": ")
        value = draw.choice(_HOSTILE).encode("utf-8", "surrogatepass")
        lines[at] = key + colon + draw.choice((value, b'"' + value + b'"'))
        path.write_bytes(b"\n".join(lines))


def forbid(draw: random.Random, folder: Path) -> None:
    """Take rights from a file or a folder, which stops all but root."""
    path = draw.choice([folder / top for top in TOPS if (folder / top).is_dir()] + entries(folder))
    if not path.is_symlink():
        path.chmod(draw.choice((0o000, 0o100, 0o400, 0o555)))


def remove(draw: random.Random, folder: Path) -> None:
    _emptied(draw.choice(entries(folder)))


def project_file(draw: random.Random, folder: Path) -> None:
    texts = (
        *("output: policies\n", "output: .\n", "policies: inventory\n", "inventory: [absent]\n", "a: ["),
        *("policies: /proc\n", "output: output/east\n", "findings: {foreign-file: ignore}\n", "output: .git\n"),
        *("policies: .git\n", "\0", ""),
        *('output: "a\\u202eb"\n', "output: policies/tls.yaml\n", "output: .kae_cache\n"),
    )
    _emptied(folder / "kae.yaml").write_text(draw.choice(texts))


ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        *(link, link_top, link_temporary, rename, foreign, conflict, special, deepen, damage_index, damage, reword),
        *(forbid, remove, project_file),
    )
}
