"""Write docs/catalogue.md: what each recipe that kae ships brings, by its file and by what the compiler makes of it."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from compiler.project.recipes import copies, trial
from compiler.settings import Settings
from compiler.views import recipe as view
from docs import markdown

PAGE = Path(__file__).resolve().parent / "catalogue.md"

_HEAD = """\
# Recipes that come with kae

What `kae recipe list` shows as shipped, from the recipes themselves. `make docs` generates this page. `kae recipe add
onload` copies one into a project, with an example of a policy; [Recipes](recipes.md) and [Vendors'
programs](programs.md) say how to go on. Rights are those that privileges.txt of a cluster would list, on a made-up
node: with the defaults, and which more a value of a parameter brings.
"""

_VENDOR = """\
Pods, files and the rule of NFD were compared with the vendor's manifests and with what its operator makes of them, for
several settings ([test](../tests/vendors/test_intel.py)). Not run on hardware.
"""

TRIED: Mapping[str, str] = {
    "amd-gpu": """\
Its pods were compared with the vendor's two manifests, with and without health checks. Not run on hardware.\
""",
    **dict.fromkeys(("intel-dsa", "intel-iaa", "intel-gpu", "intel-qat"), _VENDOR),
    "intel-npu": f"""\
{_VENDOR}The vendor's own program, with fake devices, offered its resource to a real kubelet, and a pod got one
([test](../tests/cluster/test_vendor_program.py)).\
""",
    "intel-sgx": f"""\
{_VENDOR}The policies of the API server are tried on a real one
([test](../tests/cluster/test_admission.py)).\
""",
    "onload": """\
The installer loads a stand-in for the modules on a real kernel in QEMU ([test](../tests/vm/test_recipes.py)), and a
real kubelet gives pods the resource over stand-ins for the device nodes ([test](../tests/cluster/test_onload.py)). The
control plane's container was compared with the sources of Onload's operator. Not run with a card.\
""",
    "simple-kmod": """\
Its modules are built, loaded, changed, rolled back and unloaded on a real kernel in QEMU
([test](../tests/vm/test_recipes.py)).\
""",
}
"""What of a recipe was tried, and how."""


def text() -> str:
    """Return the text of the page."""
    settings = Settings()
    return _HEAD + "".join(_recipe(each, settings) for each in copies.shipped(settings))


def _recipe(shipped: copies.Known, settings: Settings) -> str:
    recipe, found = copies.judged(shipped, settings)
    if recipe is None:
        raise ValueError(f"A shipped recipe has mistakes: {found}")
    spec, tried = recipe.data["spec"], trial.every(recipe, settings)
    parts = [
        f"## {shipped.name}",
        _purpose(shipped.name),
        f"**Nodes**: {view.nodes(spec['match'])}.",
        f"**Tried**: {TRIED[shipped.name]}",
        *(f"Of the parameters, {sentence}." for sentence in view.excluded(spec)),
        *(
            markdown.table(head, lines)
            for head, rows in (
                (("parameter", "type", "default", "meaning"), _coded(view.parameters(spec), 0, 2)),
                (("image", "reference"), _coded(view.references(spec), 0, 1)),
                (("module", "parameters", "replaces", "also"), view.modules(spec)),
                (("resource", "class", "devices"), _coded(view.resources(spec), 0)),
                (("program", "right", "with"), _coded(_rights(tried), 1)),
            )
            if (lines := list(rows))
        ),
    ]
    return "".join(f"\n{part.rstrip()}\n" for part in parts)


def _purpose(name: str) -> str:
    """Return the comment at the head of a recipe."""
    lines = copies.text(name).splitlines()
    head = lines[: next(number for number, line in enumerate(lines) if not line.startswith("#"))]
    return "\n".join(line.removeprefix("#").strip() for line in head).replace("<", "\\<")


def _rights(tried: Iterable[trial.Trial]) -> Iterator[markdown.Row]:
    """Yield what programs may do with the defaults, and what more with other values."""
    known = set[markdown.Row]()
    for one in tried:
        own = [(right.program, right.text) for right in view.rights(one.objects)]
        yield from ((*right, "" if not one.values else one.said) for right in own if right not in known)
        known |= {*own}


def _coded(rows: Iterable[markdown.Row], *columns: int) -> Iterator[markdown.Row]:
    """Yield rows with the given columns as code; a column that says nothing stays as it is."""
    for row in rows:
        yield tuple(
            f"`{cell}`" if column in columns and cell not in ("", "-") else cell for column, cell in enumerate(row)
        )
