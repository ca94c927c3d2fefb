"""docs/rollouts.md and the README's canary say what holds: their commands are run."""

import difflib
import re
import shlex
import shutil
from pathlib import Path

import msgspec
import pytest
import yaml

from installer.decide import desired
from runtime import driver_config
from tests import in_process, project
from tests.documentation import pages
from tests.documentation.shell import ROLLOUT, copy_of_the_fleet, run

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/rollouts.md"
README = ROOT / "README.md"
TLS = "policies/tls.yaml"

COMMITS = ("1. The canary", "2. Half", "3. A sick group is frozen", "4. The rest", "5. Clean-up")
RULE = "east/node-feature-rule/nodefeaturerule-kae-pool-tls.yaml"


def daemonset(pool: str) -> str:
    """The driver DaemonSet of a pool of the example, below output/."""
    return f"east/driver/daemonset-kae-driver-tls{pool and '--' + pool}.yaml"


def pools(folder: Path) -> str:
    """How many nodes `kae plan` counts in each pool."""
    shown = re.search(r"^cluster \S+, pools:\n(?:  .*\n)+", in_process.kae(folder, "plan").out, re.MULTILINE)
    assert shown
    return shown[0]


def test_the_five_commits_leave_the_pools_that_the_page_shows(tmp_path: Path) -> None:
    text = pages.text_of(PAGE)
    folder = shutil.copytree(ROLLOUT, tmp_path / "fleet")
    begin = pages.command_lines(pages.section(text, "A rollout in five commits")).partition("cd fleet\n")[2]
    frozen = "3. A sick group is frozen"

    run(folder, begin)
    for heading in COMMITS:
        run(folder, pages.command_lines(pages.section(text, heading)))
        if heading == frozen:
            expected = pages.with_block(text, heading, "text", pools(folder))

    assert project.expected(PAGE, expected) == expected
    assert run(folder, "git status --short -- policies output") == ""


def test_the_canary_of_the_readme_is_a_commit_of_eight_lines(tmp_path: Path) -> None:
    text = pages.text_of(README)
    folder = copy_of_the_fleet(tmp_path / "fleet")
    run(folder, "git init -q --initial-branch=main; git add policies inventory output; git commit -q -m Begin")
    (bump,) = re.findall(r"^    (kae bump .*)$", text, re.MULTILINE)

    run(folder, f"{bump}; kae compile; git commit -q -a -m Canary")

    diff = run(folder, "git show --format= -U0")
    assert len(re.findall(r"^[+-](?!\+\+|--)", diff, re.MULTILINE)) == 8
    assert "has eight changed lines" in text


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of `fleet`; not to be changed."""
    return compiled(shutil.copytree(ROLLOUT, tmp_path_factory.mktemp("begun") / "fleet"))


@pytest.fixture
def fleet(begun: Path, tmp_path: Path) -> Path:
    """The example of the page as it is before its first commit, compiled."""
    return shutil.copytree(begun, tmp_path / "fleet")


def compiled(folder: Path) -> Path:
    """The folder, compiled without a word."""
    answer = in_process.kae(folder, "compile")
    assert (answer.code, answer.err) == (0, "")
    return folder


def edited(folder: Path, old: str, new: str, name: str = TLS) -> dict[str, list[str]]:
    """Return the changes in output/ after an edit of a document: by path, the removed and added lines."""
    before = project.tree(folder / "output")
    text = (folder / name).read_text("utf-8")
    assert old in text
    project.write(folder, {name: text.replace(old, new, 1)})
    after = project.tree(compiled(folder) / "output")
    changed = sorted(path for path in before | after if before.get(path) != after.get(path))
    return {path: lines(before.get(path, b""), after.get(path, b"")) for path in changed}


def lines(before: bytes, after: bytes) -> list[str]:
    """The removed and added lines of a file."""
    difference = difflib.unified_diff(before.decode().splitlines(), after.decode().splitlines(), lineterm="", n=0)
    return [line for line in difference if not line.startswith(("+++", "---", "@@"))]


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("percent: 5\n", "percent: 10\n", ["+          - kp920-rack1-02", "-          - kp920-rack1-02"]),
        ("percent: 50\n", "percent: 51\n", ["+          - kp920-rack1-05"]),
        ("percent: 5\n", "nodes: [kp920-rack3-03, kp920-rack3-05]\n", ["+          - kp920-rack3-03"]),
    ],
    ids=["into a wider wave", "out of the rest", "by name"],
)
def test_a_node_that_changes_its_pool_changes_the_rule_and_no_daemonset(
    old: str, new: str, moved: list[str], fleet: Path
) -> None:
    assert edited(fleet, old, new) == {RULE: moved}


def test_a_node_that_joins_changes_the_rule_of_its_wave_alone(fleet: Path) -> None:
    known = '"name":"kp920-rack1-08","profile":"65a57991"},\n'
    label = '{"labels":{"pool":"tls","topology.kubernetes.io/zone":"rack1"},'

    changed = edited(fleet, known, f"{known}{label}{known.replace('08', '09', 1)}", "inventory/east.json")

    assert changed == {RULE: ["+          - kp920-rack1-09"]}


def test_another_version_of_a_wave_changes_one_daemonset(fleet: Path) -> None:
    changed = edited(fleet, "percent: 5\n          version: 2.2.0", "percent: 5\n          version: 2.3.0")

    assert sorted(changed) == [daemonset("canary"), "east/images.txt"]
    assert [line.split(maxsplit=1)[1] for line in changed[daemonset("canary")] if line[0] == "+"] == [
        '"driverVersion": "2.3.0",',
        "image: cr.openfuyao.cn/openfuyao/kae-driver-installer:2.3.0",
    ]


def test_a_wave_in_one_cluster_changes_no_other(tmp_path: Path) -> None:
    folder = copy_of_the_fleet(tmp_path)
    text = (folder / TLS).read_text("utf-8")
    start, end = text.index("    rollout:\n"), text.index("  devicePlugin:\n")
    project.write(folder, {TLS: text[:start] + text[end:]})
    assert in_process.kae(folder, "compile").code == 0
    before = project.tree(folder / "output")
    project.write(folder, {TLS: text})

    answer = in_process.kae(folder, "compile")

    after = project.tree(folder / "output")
    assert "\neast: unchanged\nlab: unchanged\nwest: " in answer.out
    assert {path.partition("/")[0] for path in before | after if before.get(path) != after.get(path)} == {"west"}


def test_the_first_wave_renames_daemonsets_and_changes_no_hosts_driver(fleet: Path) -> None:
    with_waves = {pool: told(fleet, pool) for pool in ("canary", "half", "rest")}
    text = (fleet / TLS).read_text("utf-8")
    changed = edited(fleet, text[text.index("      waves:\n") : text.index("  devicePlugin:\n")], "")

    before = told(fleet, "")

    assert {path for path in changed if "daemonset" in path} == {daemonset(pool) for pool in ("", *with_waves)}
    for asked in with_waves.values():
        assert desired.digest(asked, "5.10.0", "content") == desired.digest(before, "5.10.0", "content")
        assert msgspec.structs.replace(asked, pool=before.pool, daemon_set=before.daemon_set) == before


def told(folder: Path, pool: str) -> driver_config.Config:
    """Return the config of a pool's installers."""
    manifest = yaml.safe_load((folder / "output" / daemonset(pool)).read_text("utf-8"))
    path = folder / "config.json"
    path.write_text(manifest["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"], "utf-8")
    return driver_config.load(path)


FREEZE = """\
      frozen:
        - name: batch7
          nodes: [kp920-rack1-03]
          version: 2.2.0
"""


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        ("driver:\n    version: 2.2.0\n", "driver:\n    version: 2.3.0\n", False),
        ("percent: 50\n          version: 2.2.0\n", "percent: 50\n          version: 2.3.0\n", False),
        ("percent: 50\n", "percent: 20\n", False),
        ("driver:\n", "driver:\n    sriov: {hpre: 4}\n", True),
        ("driver:\n", "driver:\n    moduleParameters: {hisi_hpre: {pf_q_num: 512}}\n", True),
        ("      prebuilt: {}\n", "      inTree: {}\n", True),
    ],
    ids=["driver.version", "a wave", "a bound", "sriov", "moduleParameters", "source"],
)
def test_a_frozen_group_moves_with_what_it_does_not_override(old: str, new: str, moves: bool, fleet: Path) -> None:
    edited(fleet, "  devicePlugin:\n", f"{FREEZE}  devicePlugin:\n")

    changed = edited(fleet, old, new)

    assert (daemonset("batch7") in changed) is moves


def test_every_excerpt_of_a_policy_compiles(tmp_path: Path) -> None:
    head = (ROLLOUT / TLS).read_text("utf-8").partition("  driver:\n")[0].replace("[east]", "[east, west, staging]")
    cluster = (ROLLOUT / "policies/cluster.yaml").read_text("utf-8")
    clusters = {f"policies/{name}.yaml": cluster.replace("east", name) for name in ("east", "west", "staging")}
    excerpts = pages.blocks(PAGE, "yaml")

    for excerpt in excerpts:
        answer = in_process.kae(project.write(tmp_path, {**clusters, TLS: head + excerpt}), "compile")
        assert (answer.code, "error" in answer.err) == (0, False), answer.err

    assert len(excerpts) == 3


def test_what_kae_says_on_the_page_is_what_it_says() -> None:
    text = pages.text_of(PAGE)
    (preflight,) = re.findall(r"^    kae (preflight .*)$", text, re.MULTILINE)

    asked = in_process.kae(ROOT, *shlex.split(preflight))

    assert pages.fenced(text, "Before a node boots a new kernel", "text") in asked.out
    assert "has to hold the modules" in asked.out
