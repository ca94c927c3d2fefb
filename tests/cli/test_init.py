"""`kae init` makes a repository that compiles at once, and whose two jobs do what they say, with real git."""

import functools
import hashlib
import http.server
import json
import re
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import yaml

import compiler
from compiler.commands import init
from compiler.project import package_data
from tests import builders, in_process, project, revisions
from tests.cli import fleet, jobs
from tests.cli.answers import refused, told, warned
from tests.cli.jobs import World

PROGRAMS = ("kae-driver-installer", "kae-device-plugin")


def pip(folder: Path, requirements: Path) -> subprocess.CompletedProcess[str]:
    """Run the real pip in a folder as the jobs do, without an index."""
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--requirement", str(requirements)]
    alone = ["--no-index", "--dry-run", "--ignore-installed", "--disable-pip-version-check", "--no-cache-dir"]
    return subprocess.run([*command, *alone], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


DEVICE_PLUGIN = "output/default/device-plugin/daemonset-kae-device-plugin-kae.yaml"


def test_it_says_what_it_made_and_what_comes_next(tmp_path: Path) -> None:
    said = told(tmp_path, "init", "fleet", "--cluster", "east")

    assert {f"  {name}" for name in project.tree(tmp_path / "fleet")} <= set(said.splitlines())
    assert "cd fleet" in said
    assert "kae inventory --cluster east" in said


def test_a_name_that_yaml_takes_for_a_number_is_still_a_name(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init", ".", "--cluster", "1e3")

    assert told(tmp_path, "compile")
    assert (tmp_path / "output/1e3").is_dir()


def test_no_file_is_overwritten_and_none_is_written_beside_it(tmp_path: Path) -> None:
    project.write(tmp_path, {"README.md": "mine\n"})

    assert "README.md" in refused(3, tmp_path, "init")
    assert project.tree(tmp_path) == {"README.md": b"mine\n"}


def test_a_folder_that_cannot_be_made_is_the_worlds_fault(tmp_path: Path) -> None:
    project.write(tmp_path, {"taken": ""})

    assert "taken" in refused(3, tmp_path, "init", "taken/fleet")


def test_editors_get_the_languages_that_the_documents_name(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")

    for name, schema in (("policy", "kaepolicy"), ("cluster", "kaecluster")):
        first, second, *_ = (tmp_path / f"policies/{name}.yaml").read_text(encoding="utf-8").splitlines()
        assert first == "# +argocd:skip-file-rendering"
        assert second == f"# yaml-language-server: $schema=../schemas/{schema}.json"
        assert json.loads((tmp_path / f"schemas/{schema}.json").read_text()) == package_data.schemas()[schema]


def test_the_scripts_may_be_run(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "ci").iterdir()}

    scripts = {f"{name}.sh" for name in ("check", "compile", "install", "inventories", "rehearse", "review")}
    assert {name for name, mode in modes.items() if mode == 0o755} == scripts


@pytest.mark.parametrize("name", [".github/workflows/kae.yaml", ".gitlab-ci.yml"])
def test_both_code_hosts_call_the_same_scripts_and_install_nothing_else(tmp_path: Path, name: str) -> None:
    in_process.kae(tmp_path, "init")

    text = (tmp_path / name).read_text(encoding="utf-8")

    assert isinstance(yaml.safe_load(text), dict)
    assert "pip install" not in text
    assert "ci/install.sh" in text
    for script in ("check.sh", "compile.sh", "rehearse.sh", "review.sh", "comment.py"):
        assert f"ci/{script}" in text
    used = set(re.findall(r"uses: (\S+)", text))
    assert {action.partition("/")[0] for action in used} <= {"actions"}
    assert text.count("@") == len(re.findall(r"uses: ", text)) + 2 * text.count("}@${CI_REPOSITORY_URL#*@}")


@pytest.mark.parametrize("more", [(), ("--registry", "registry.example.com:5000/team/")])
def test_a_new_repository_compiles_without_a_word_and_is_clean_after_it(more: tuple[str, ...], tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init", "fleet", "--cluster", "east", *more)

    assert warned(tmp_path / "fleet", "compile", "--strict") == ""
    assert warned(tmp_path / "fleet", "compile", "--check", "--no-cache") == ""
    assert (tmp_path / "fleet/output/east/kustomization.yaml").is_file()


def test_the_first_canary_of_a_new_repository_touches_its_node_alone(tmp_path: Path) -> None:
    told(tmp_path, "init", "--cluster", "east")
    nodes = tuple(builders.kubernetes_node(f"node-{number}", builders.HPRE) for number in range(9))
    project.write(tmp_path, {"inventory/east.json": fleet.listed(nodes)})
    told(tmp_path, "compile")
    assert [path.name for path in tmp_path.glob("output/east/driver/daemonset-*")] == [
        "daemonset-kae-driver-kae--rest.yaml"
    ]
    revisions.commit(tmp_path)
    policy = (tmp_path / "policies/policy.yaml").read_text()
    project.write(tmp_path, {"policies/policy.yaml": policy.replace("nodes: []", "nodes: [node-3]")})

    effects = json.loads(told(tmp_path, "diff", "-o", "json"))["effects"]
    (changes,) = json.loads(told(tmp_path, "compile", "-o", "json"))["changes"]
    told(tmp_path, "bump", "kae", "--wave", "canary", "--version", "9.9.9")
    (bumped,) = json.loads(told(tmp_path, "compile", "-o", "json"))["changes"]

    assert [(effect["nodes"], effect["driver"]) for effect in effects] == [(["node-3"], "restarts")]
    assert changes["nodes"] == bumped["nodes"] == ["node-3"]


def test_the_registry_and_versions_stand_in_the_policy_or_it_says_where(tmp_path: Path) -> None:
    named = told(tmp_path, "init", "--registry", "registry.example.com:5000/team/")
    plain = told(tmp_path, "init", "plain")
    in_process.kae(tmp_path, "compile")

    images = (tmp_path / "output/default/images.txt").read_text(encoding="utf-8").splitlines()
    pinned = {f"registry.example.com:5000/team/{name}:{compiler.__version__.replace('+', '-')}" for name in PROGRAMS}
    assert pinned <= set(images)
    assert "policies/policy.yaml." not in named
    assert "Set the registry and the versions of your images in policies/policy.yaml." in plain
    assert "That file is for KAE: delete it where you have recipes alone." in plain


@pytest.mark.long
def test_a_wheel_is_copied_and_pip_takes_it_by_its_hash(tmp_path: Path) -> None:
    made = jobs.a_wheel(tmp_path)
    in_process.kae(tmp_path, "init", "fleet", "--wheel", str(made))
    line = (tmp_path / "fleet/ci/requirements.txt").read_text(encoding="utf-8").splitlines()[0]
    (tmp_path / "wheel.txt").write_text(line, encoding="utf-8")

    taken = pip(tmp_path / "fleet", tmp_path / "wheel.txt")

    assert line == f"./ci/{made.name} --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}"
    assert taken.returncode == 0, taken.stderr


def test_everything_that_the_wheel_needs_is_pinned_beside_it(tmp_path: Path, repository_root: Path) -> None:
    in_process.kae(tmp_path, "init", "--wheel", str(jobs.a_wheel(tmp_path)))
    text = (tmp_path / "ci/requirements.txt").read_text(encoding="utf-8")
    declared = tomllib.loads((repository_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (repository_root / "requirements.lock").read_text(encoding="utf-8").splitlines()

    pinned = re.findall(r"^([\w-]+)==", text, re.MULTILINE)

    assert {re.split(r"[<>=]", need)[0] for need in declared["dependencies"]} <= set(pinned)
    # What the tests have run with, and not another version.
    assert [line for line in text.splitlines()[1:] if "==" in line and line not in lock] == []


def test_what_a_rehearsal_needs_is_pinned_in_the_versions_of_the_tests(tmp_path: Path, repository_root: Path) -> None:
    in_process.kae(tmp_path, "init")
    declared = tomllib.loads((repository_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    both = [tmp_path / "ci/requirements-live.txt", repository_root / "requirements.lock"]
    live, lock = (
        dict(re.findall(r"^([\w-]+)(==\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in both
    )

    assert {re.split(r"[<>=]", need)[0] for need in declared["optional-dependencies"]["live"]} <= live.keys()
    assert {name: version for name, version in live.items() if lock.get(name) != version} == {}


def test_a_wheel_in_the_repository_stays_where_it_is(tmp_path: Path) -> None:
    made = jobs.a_wheel(tmp_path / "fleet/wheels")

    in_process.kae(tmp_path, "init", "fleet", "--wheel", str(made))

    text = (tmp_path / "fleet/ci/requirements.txt").read_text(encoding="utf-8")
    assert text.startswith(f"./wheels/{made.name} --hash=sha256:")
    assert not (tmp_path / f"fleet/ci/{made.name}").exists()


def test_a_wheel_at_a_url_is_downloaded_once_for_its_hash(tmp_path: Path) -> None:
    made = jobs.a_wheel(tmp_path / "served")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=made.parent)
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{made.name}"
        told(tmp_path, "init", "fleet", "--wheel", url)

    line = (tmp_path / "fleet/ci/requirements.txt").read_text(encoding="utf-8").splitlines()[0]
    assert line == f"kae-compiler @ {url} --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}"


def test_a_url_that_ends_with_its_hash_is_not_asked(tmp_path: Path) -> None:
    url = f"https://wheels.invalid/{init.WHEEL}"

    told(tmp_path, "init", "--wheel", f"{url}#sha256={'a' * 64}")

    text = (tmp_path / "ci/requirements.txt").read_text(encoding="utf-8")
    assert text.startswith(f"kae-compiler @ {url} --hash=sha256:{'a' * 64}\n")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("cluster", "East", "'East'"),
        ("registry", "https://registry.example.com", "'https://registry.example.com' is not a registry."),
        ("registry", "Registry.example.com", "'Registry.example.com' is not a registry."),
        ("registry", "a b", "'a b' is not a registry."),
        ("registry", "", "'' is not a registry."),
        ("wheel", "dist/kae-0.0.1.whl", "is not the wheel of kae"),
        ("wheel", f"dist/{init.WHEEL}", "cannot be read: No such file or directory."),
        ("wheel", f"http://127.0.0.1:1/{init.WHEEL}", "cannot be downloaded: [Errno 111] Connection refused."),
        ("wheel", f"https://me:secret@example.com/{init.WHEEL}", "is not the URL of a wheel."),
        ("wheel", f"file:///{init.WHEEL}", "is not the URL of a wheel."),
        ("wheel", f"https://example.com/{init.WHEEL}#sha256=abc", "'#sha256=abc' is not a digest."),
    ],
)
def test_a_value_that_makes_no_repository_is_refused(tmp_path: Path, option: str, value: str, said: str) -> None:
    assert said in refused(2 if option == "cluster" else 3, tmp_path, "init", f"--{option}", value)
    assert project.tree(tmp_path) == {}


def test_another_wheel_is_pinned_in_a_repository_that_exists(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init", "fleet")
    before = project.tree(tmp_path / "fleet")

    told(tmp_path, "init", "fleet", "--wheel", str(jobs.a_wheel(tmp_path)))

    after = project.tree(tmp_path / "fleet")
    assert {name for name in after if after[name] != before.get(name)} == {"ci/requirements.txt", f"ci/{init.WHEEL}"}


def test_what_a_rehearsal_needs_goes_with_the_wheel_where_a_repository_has_it(tmp_path: Path) -> None:
    wheel = str(jobs.a_wheel(tmp_path))
    in_process.kae(tmp_path, "init", "fleet")
    pins = tmp_path / "fleet/ci/requirements-live.txt"
    text = pins.read_text()
    pins.write_text("kubernetes==36.0.0\n")

    said = told(tmp_path, "init", "fleet", "--wheel", wheel)
    renewed = pins.read_text()
    pins.unlink()
    told(tmp_path, "init", "fleet", "--wheel", wheel)

    assert f"ci/requirements.txt, ci/requirements-live.txt and ci/{init.WHEEL}" in said
    assert renewed == text
    assert not pins.exists()


def test_jobs_without_a_wheel_fail_and_say_how_to_pin_one(world: World) -> None:
    done = world.ended(1, world.clone("a"), "ci/install.sh")

    assert "Run 'kae init --wheel URL|PATH' in this folder, and commit what it writes." in done.stderr


def test_jobs_install_exactly_what_is_pinned(world: World, clone: Path) -> None:
    in_process.kae(clone, "init", "--wheel", str(jobs.a_wheel(world.folder)))
    world.install(world.folder / "bin/python3", 'echo "$@"')

    done = world.run(clone, "ci/install.sh")

    assert done.stdout == "-P -m pip install --require-hashes --requirement ci/requirements.txt\n", done.stderr


def test_the_check_fails_on_stale_output_and_shows_it_in_a_pull_request(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)

    text, github = (world.run(clone, "ci/check.sh", **more) for more in ({}, jobs.ACTIONS))

    for done in (text, github):
        assert done.returncode == 4
        assert DEVICE_PLUGIN in done.stdout
    assert "::error title=output::" in github.stdout


def test_the_check_fails_on_documents_that_are_wrong(world: World, clone: Path) -> None:
    jobs.edit(clone, "policies/policy.yaml", "enabledSEC: false", "enabledSEC: perhaps")

    done = world.ended(1, clone, "ci/check.sh", GITHUB_ACTIONS="true")

    assert "::error file=policies/policy.yaml" in done.stdout


@pytest.mark.long
def test_only_the_first_node_changes_the_output_and_makes_a_commit(world: World) -> None:
    for step, names in (("a", ["kp-01"]), ("b", ["kp-01", "kp-02"])):
        clone = world.clone(step)
        nodes = tuple(builders.kubernetes_node(name) for name in names)
        (clone / "inventory/default.json").write_text(fleet.listed(nodes), encoding="utf-8")
        world.push(clone, f"Nodes {step}")

        done = world.run(clone, "ci/compile.sh", "main")

        assert done.returncode == 0, done.stderr

    assert world.subjects() == ["Begin", "Nodes a", "Compile default", "Nodes b"]
    changed = world.git(world.bare, "diff", "--name-only", "main~2", "main~1").splitlines()
    assert changed == ["output/default/index.json"]


@pytest.mark.long
def test_a_changed_policy_is_compiled_and_committed_exactly_once(world: World, clone: Path) -> None:
    world.install_real_kae()
    jobs.serve_sec(clone)
    world.push(clone, "Serve SEC")

    first = world.run(clone, "ci/compile.sh", "main")
    world.install_kae()
    second = world.run(clone, "ci/compile.sh", "main")

    assert first.returncode == 0, first.stderr
    assert second.returncode == 0, second.stderr
    assert world.subjects() == ["Begin", "Serve SEC", "Compile default"]
    assert "openfuyao.com/kae.sec" in world.text(DEVICE_PLUGIN)
    message = world.git(world.bare, "log", "-1", "--format=%B", "main")
    assert "- default: " in message
    assert message.endswith(f"Kae-Compiled-From: {world.git(world.bare, 'rev-parse', 'main^')}")
    changed = world.git(world.bare, "diff", "--name-only", "main^", "main").splitlines()
    assert all(name.startswith("output/default/") for name in changed)
    assert world.run(clone, "ci/check.sh").returncode == 0


def test_the_message_counts_files_and_lines_of_each_cluster_as_git_does(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    text = (clone / "policies/cluster.yaml").read_text(encoding="utf-8")
    (clone / "policies/west.yaml").write_text(text.replace('name: "default"', "name: west"), encoding="utf-8")
    world.push(clone, "Serve SEC, and add a cluster")

    world.ended(0, clone, "ci/compile.sh", "main")

    assert world.subjects()[-1] == "Compile 2 clusters"
    lines = world.git(world.bare, "log", "-1", "--format=%b", "main").splitlines()
    count = ("diff", "--shortstat", "--no-renames", "main^", "main", "--")
    expected = [f"- {name}: {world.git(world.bare, *count, f'output/{name}')}" for name in ("default", "west")]
    assert lines[:2] == expected


def test_its_own_commit_is_not_compiled_again(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    world.push(clone, "Serve SEC")
    world.run(clone, "ci/compile.sh", "main")
    world.install(world.folder / "bin/kae", '[ "$1" = config ] || exit 9')

    world.ended(0, world.clone("b"), "ci/compile.sh", "main")


@pytest.mark.long
def test_a_copy_of_its_own_message_is_not_taken_for_its_own_commit(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    elsewhere = world.git(clone, "hash-object", "policies/policy.yaml")
    world.push(clone, f"Serve SEC\n\nKae-Compiled-From: {elsewhere}")

    world.ended(0, clone, "ci/compile.sh", "main")

    assert world.subjects()[-1] == "Compile default"


@pytest.mark.long
def test_a_push_that_lost_a_race_is_made_anew_and_both_changes_survive(world: World) -> None:
    ours, theirs = world.clone("a"), world.clone("b")
    jobs.serve_sec(ours)
    world.push(ours, "Serve SEC")
    world.git(theirs, "pull", "--quiet")
    jobs.edit(theirs, "policies/policy.yaml", "enabledZIP: false", "enabledZIP: true")
    world.commit(theirs, "Serve ZIP")
    # Between the script's fetch and its first push, somebody else pushes.
    hook = f"""[ -e raced ] && exit 0
touch raced
unset $(git rev-parse --local-env-vars)
git -C '{theirs}' push --quiet"""
    (ours / ".git/hooks").mkdir(exist_ok=True)
    world.install(ours / ".git/hooks/pre-push", hook)

    done = world.ended(0, ours, "ci/compile.sh", "main")

    assert "attempt 1 of" in done.stderr
    assert world.subjects() == ["Begin", "Serve SEC", "Serve ZIP", "Compile default"]
    assert "openfuyao.com/kae.sec" in world.text(DEVICE_PLUGIN)
    assert "openfuyao.com/kae.zip" in world.text(DEVICE_PLUGIN)


def test_documents_that_are_wrong_are_not_committed(world: World, clone: Path) -> None:
    jobs.edit(clone, "policies/policy.yaml", "enabledSEC: false", "enabledSEC: perhaps")
    world.push(clone, "Guess")

    world.ended(1, clone, "ci/compile.sh", "main")

    assert world.subjects() == ["Begin", "Guess"]


def test_a_clone_with_work_in_it_is_left_alone(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    before = project.tree(clone)

    world.ended(1, clone, "ci/compile.sh", "main")

    assert project.tree(clone) == before
