"""What a pull request can and cannot do to the jobs that `kae init` writes; docs/security.md states it."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import compiler
from compiler.commands import init
from compiler.project import package_data
from tests import in_process, project
from tests.cli import jobs
from tests.cli.jobs import ACTIONS, World, commands

pytestmark = pytest.mark.long

POLICY = "policies/policy.yaml"
DRIVER = "output/default/driver/daemonset-kae-driver-kae--rest.yaml"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A fleet whose main line is compiled; not to be changed."""
    folder = tmp_path_factory.mktemp("begun")
    return World(folder, repository_root).begin("--wheel", str(jobs.a_wheel(folder / "wheel")))


def begin_again(world: World, clone: Path, settings: str, folder: str) -> None:
    """Give the main line a kae.yaml, and the folder of outputs the name that it says; then begin a branch."""
    (clone / folder).parent.mkdir(exist_ok=True)
    world.git(clone, "mv", "output", folder)
    (clone / "kae.yaml").write_text(settings, encoding="utf-8")
    assert in_process.kae(clone, "compile").code == 0
    world.push(clone, "Name the folder")
    world.git(clone, "checkout", "--quiet", "-b", "change")


def commit_in_output(world: World, clone: Path, entry: str) -> None:
    """Commit an entry of git's index, of which kae's own check sees nothing."""
    world.git(clone, "update-index", "--add", "--cacheinfo", entry)
    world.git(clone, "commit", "--quiet", "--message", "Tidy")
    world.git(clone, "reset", "--quiet", "--hard")
    assert in_process.kae(clone, "compile", "--check").code == 0


def test_the_runner_is_imitated() -> None:
    text = "::error file=a::b\n  ::notice::c\nd ##[group]e\n::nothing::f\n"
    pause = "::stop-commands::x\n::error::g\n::x::\n::debug::h\n"

    assert list(commands(text + pause)) == ["error b", "notice c", "group e", "stop-commands x", "debug h"]


def test_no_line_of_a_difference_is_a_workflow_command(world: World, clone: Path) -> None:
    variable = r'"a\n::error::hello\n##[add-mask]the\n"'
    jobs.edit(clone, POLICY, "  driver:\n", f"  driver:\n    env: [{{name: X, value: {variable}}}]\n")
    world.propose(clone, "Set a variable")

    done = world.ended(4, clone, "ci/check.sh", **ACTIONS)

    assert re.search(r"^\+ +::error::hello$", done.stdout, re.MULTILINE)
    said = list(commands(done.stdout + done.stderr))
    assert [one.split()[0] for one in said] == ["stop-commands", "error"]
    assert said[1] == "error output/ is not what policies/ and inventory/ compile to."


def test_no_line_of_the_compile_job_is_a_workflow_command(world: World, clone: Path) -> None:
    jobs.edit(clone, POLICY, "enabledSEC: false", "enabledSEC: '##[add-mask]the'")
    world.push(clone, "Set a variable")

    done = world.ended(1, clone, "ci/compile.sh", "main", **ACTIONS)

    assert "##[add-mask]the" in done.stderr
    assert [one.split()[0] for one in commands(done.stdout + done.stderr)] == ["stop-commands"]


def test_a_committed_cache_confirms_nothing(world: World, clone: Path) -> None:
    assert in_process.kae(clone, "compile").code == 0
    jobs.edit(clone, DRIVER, "privileged: true", "privileged: false")
    world.git(clone, "add", "--force", "--all", ".kae_cache")
    world.push(clone, "Tidy")
    other = world.clone("b")
    assert (other / ".kae_cache/results.json").exists()

    done = world.ended(4, other, "ci/check.sh")

    assert "privileged: true" in done.stdout


@pytest.mark.long
def test_a_module_of_the_repository_does_not_run_as_pip(world: World, clone: Path) -> None:
    # The first words of the call, and then one that needs no index.
    world.install(world.folder / "bin/python3", f'exec "{sys.executable}" "$1" "$2" "$3" --version')
    (clone / "pip.py").write_text("print('not pip')\n", encoding="utf-8")

    done = world.run(clone, "ci/install.sh")

    assert done.stdout.startswith("pip "), done.stderr


def test_templates_and_schemas_of_the_repository_change_no_object(world: World, clone: Path) -> None:
    own = project.tree(Path(package_data.folder("templates")))
    copies = {f"templates/{name}": text.decode() for name, text in own.items() if b"privileged: true" in text}
    project.write(clone, {name: text.replace("privileged: true", "hostPID: true") for name, text in copies.items()})
    project.write(clone, {"schemas/kaepolicy.json": "true\n"})

    assert "templates/driver/daemonset.yaml" in copies
    assert world.run(clone, "ci/check.sh").returncode == 0


def test_the_check_names_what_changes_it(world: World, clone: Path) -> None:
    check = (clone / "ci/check.sh").read_bytes()
    texts = {
        "kae.yaml": "output: elsewhere\n",
        "ci/check.sh": "exit 0\n",
        ".sourceignore": "output/default/guard\n",
        "output/default/.gitattributes": "*.yaml -text\n",
    }
    project.write(clone, texts)
    world.propose(clone, "Tidy")
    # GitHub runs the script of the pull request itself, so a change of it can silence it, but not unseen.
    (clone / "ci/check.sh").write_bytes(check)

    done = world.run(clone, "ci/check.sh", **ACTIONS)

    for name in texts:
        said = f"The pull request changes {name}, which decides what is checked or applied."
        assert f"::warning title=check-changed::{said}" in done.stdout


def test_the_folder_that_engines_apply_is_checked_whatever_kae_yaml_names(world: World, clone: Path) -> None:
    shutil.copytree(clone / "output", clone / "elsewhere")
    (clone / "kae.yaml").write_text('{"output": elsewhere}\n', encoding="utf-8")
    assert in_process.kae(clone, "compile").code == 0
    jobs.edit(clone, DRIVER, "privileged: true", "privileged: false")
    world.commit(clone, "Tidy")
    assert in_process.kae(clone, "compile", "--check").code == 0
    world.merge(clone)

    done = world.ended(4, clone, "ci/check.sh", **ACTIONS)

    assert f"+++ {DRIVER} (compiled)" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("settings", ["{output: the gen}\n", '"output" : the gen/\n'])
def test_the_base_names_the_folder_that_engines_apply_in_any_yaml(world: World, clone: Path, settings: str) -> None:
    begin_again(world, clone, settings, "the gen")
    shutil.copytree(clone / "the gen", clone / "gen")
    (clone / "kae.yaml").write_text("output: gen\n", encoding="utf-8")
    assert in_process.kae(clone, "compile").code == 0
    jobs.edit(clone, DRIVER.replace("output/", "the gen/"), "privileged: true", "privileged: false")
    world.propose(clone, "Tidy")

    done = world.ended(4, clone, "ci/check.sh", **ACTIONS)

    assert "+++ the gen/default/driver/" in done.stdout


@pytest.mark.long
def test_a_setting_beside_the_folder_can_change(world: World, clone: Path) -> None:
    begin_again(world, clone, "{output: ./gen/}\n", "gen")
    (clone / "kae.yaml").write_text("output: gen\nlimits:\n  removedPercent: 10\n", encoding="utf-8")
    world.propose(clone, "Allow less")

    world.ended(0, clone, "ci/check.sh", **ACTIONS)


@pytest.mark.parametrize("folder", ["gen", "deep/gen"])
def test_the_folder_that_engines_apply_becomes_no_link(world: World, clone: Path, folder: str) -> None:
    begin_again(world, clone, f"output: {folder}\n", folder)
    top = folder.partition("/")[0]
    world.git(clone, "mv", top, "evil")
    (clone / top).symlink_to("evil")
    (clone / "kae.yaml").write_text("output: output\n", encoding="utf-8")
    assert in_process.kae(clone, "compile").code == 0
    world.commit(clone, "Tidy")
    assert in_process.kae(clone, "compile", "--check").code == 0
    world.merge(clone)

    done = world.ended(1, clone, "ci/check.sh", **ACTIONS)

    assert "is a link, and output is written to a real folder" in done.stderr
    assert "::error title=output-hidden::Engines apply the folder that kae.yaml names in 'HEAD^1'" in done.stdout


@pytest.mark.long
def test_a_base_whose_settings_cannot_be_read_is_no_success(world: World, clone: Path) -> None:
    (clone / "kae.yaml").write_text("output: [gen\n", encoding="utf-8")
    world.push(clone, "Break it")
    (clone / "kae.yaml").write_text("output: output\n", encoding="utf-8")
    world.propose(clone, "Mend it")

    done = world.ended(1, clone, "ci/check.sh", **ACTIONS)

    assert "kae.yaml of 'HEAD^1' cannot be read" in done.stderr


def test_the_check_is_of_what_git_holds_and_not_of_what_attributes_make_of_it(world: World, clone: Path) -> None:
    wide = "privileged: tr\N{FULLWIDTH LATIN SMALL LETTER U}e"
    evil = (clone / DRIVER).read_text("utf-8").replace("privileged: true", wide)
    with (clone / ".gitattributes").open("a", encoding="utf-8") as file:
        file.write("output/**/*.yaml working-tree-encoding=ASCII//TRANSLIT\n")
    blob = world.git(clone, "hash-object", "-w", "--no-filters", "--stdin", stdin=evil)
    world.git(clone, "add", ".gitattributes")
    commit_in_output(world, clone, f"100644,{blob},{DRIVER}")

    done = world.ended(1, clone, "ci/check.sh", **ACTIONS)

    said = [one for one in commands(done.stdout) if one.startswith("error")]
    assert said == [f"error git holds at {DRIVER} something else than the file that was checked."]


@pytest.mark.long
@pytest.mark.parametrize("folder", ["output/default/more", "output/more"])
def test_a_submodule_in_output_is_no_success(world: World, clone: Path, folder: str) -> None:
    commit_in_output(world, clone, f"160000,{world.git(clone, 'rev-parse', 'HEAD')},{folder}")

    done = world.run(clone, "ci/check.sh")

    said = f"error[output-hidden]: git holds at {folder} something else than the file that was checked.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_the_folder_of_a_removed_cluster_holds_no_files_of_people(world: World, clone: Path) -> None:
    for name in ("output/default/index.json", "output/default/kustomization.yaml", "inventory/default.json"):
        (clone / name).unlink()
    for document in (clone / "policies").iterdir():
        document.write_text(document.read_text().replace('name: "default"', "name: other"))
    (clone / "kae.yaml").write_text("extra: [output/default]\n", encoding="utf-8")
    in_process.kae(clone, "compile")
    world.propose(clone, "Keep some manifests")
    assert in_process.kae(clone, "compile", "--check").code == 0

    done = world.ended(1, clone, "ci/check.sh", **ACTIONS)

    assert "An engine applied output/default, and it holds files that kae did not write" in done.stdout


def test_a_folder_of_outputs_can_be_renamed(world: World, clone: Path) -> None:
    world.git(clone, "mv", "output", "elsewhere")
    (clone / "kae.yaml").write_text("output: elsewhere\n", encoding="utf-8")
    assert in_process.kae(clone, "compile").code == 0
    world.propose(clone, "Rename the folder")

    assert world.run(clone, "ci/check.sh", **ACTIONS).returncode == 0


def test_a_pull_request_that_changes_nothing_of_the_kind_is_told_nothing(world: World, clone: Path) -> None:
    base = world.git(clone, "rev-parse", "HEAD")
    (clone / "README.md").write_text("Ours.\n", encoding="utf-8")
    world.commit(clone, "Say less")
    gitlab = world.run(clone, "ci/check.sh", CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    world.merge(clone)

    github = world.run(clone, "ci/check.sh", **ACTIONS)

    for done in (github, gitlab):
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "default: fine\n")


def test_the_check_names_the_removals_that_commits_accept(world: World, clone: Path) -> None:
    base = world.git(clone, "rev-parse", "HEAD")
    for message in ("Tidy\n\nKae-Accept: removes-drivers\x1b[2J%0A::error::x", "Tidy more"):
        world.git(clone, "commit", "--quiet", "--allow-empty", "-m", message)
    gitlab = world.run(clone, "ci/check.sh", CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    world.merge(clone)

    github = world.run(clone, "ci/check.sh", **ACTIONS)

    said = "A commit says 'Kae-Accept: removes-drivers?[2J%0A::error::x': whoever merges it accepts this."
    assert (github.returncode, gitlab.returncode) == (0, 0)
    assert gitlab.stderr == f"warning[removal-accepted]: {said}\n"
    assert f"warning {said.replace('%', '%25')}" in list(commands(github.stdout))


def test_a_clone_without_the_base_says_that_nobody_has_looked(world: World) -> None:
    world.git(world.folder, "clone", "--quiet", "--depth=1", f"file://{world.bare}", "shallow")

    done = world.run(world.folder / "shallow", "ci/check.sh", **ACTIONS)

    assert "title=check-changed::This clone has no commit 'HEAD^1'" in done.stdout


def test_the_name_of_a_branch_is_never_run(world: World, clone: Path) -> None:
    name = "a;touch${IFS}pwned|$(touch${IFS}pwned)`touch${IFS}pwned`"
    jobs.serve_sec(clone)
    world.commit(clone, "Serve SEC")
    world.git(clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{name}")

    world.ended(0, clone, "ci/compile.sh", name)

    assert world.git(world.bare, "log", "-1", "--format=%s", f"refs/heads/{name}") == "Compile default"
    assert not list(world.folder.rglob("pwned"))


def test_a_message_of_a_commit_steers_no_terminal(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    world.push(clone, "Serve SEC\n\nKae-Accept: removes-drivers\x1b[2J")

    done = world.ended(0, clone, "ci/compile.sh", "main")

    assert "says 'Kae-Accept: removes-drivers?[2J', which is ignored" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_no_document_can_name_a_removal_to_accept(world: World, clone: Path) -> None:
    text = (clone / POLICY).read_text("utf-8").replace("name: kae", "name: other")
    tag = compiler.__version__.replace("+", "-")
    text = text.replace(f"version: {tag}\n", "version: latest  # Kae-Accept: removes-drivers\n")
    (clone / POLICY).write_text(text, encoding="utf-8")
    world.push(clone, "Rename the policy")

    done = world.ended(1, clone, "ci/compile.sh", "main")

    assert "latest  # Kae-Accept: removes-drivers\n" in done.stderr
    shown = [line.rpartition(" ")[2] for line in done.stderr.splitlines() if line.startswith("  git commit")]
    assert shown == ["removes-device-plugins:default/kae'", "removes-drivers:default/kae'"]


def test_a_command_that_a_hint_shows_is_safe_to_run(world: World, clone: Path) -> None:
    (clone / "inventory/$(touch pwned) `touch pwned`.json").touch()

    answer = in_process.kae(clone, "compile")

    shown = re.search(r"run `(kae .*)`; where CI", answer.err)
    assert shown
    assert shlex.split(shown[1])[3] == "inventory-empty:$(touch pwned) `touch pwned`"
    world.run(clone, "bash", "-c", shown[1])
    assert not (clone / "pwned").exists()


def test_a_removal_that_is_compiled_already_is_for_the_reviewer_to_see(world: World, clone: Path) -> None:
    text = (clone / POLICY).read_text(encoding="utf-8")
    (clone / POLICY).unlink()
    project.write(clone, {"policies/other.yaml": text.replace("name: kae\n", "name: other\n")})
    accepted = [f"--accept={code}" for code in ("removes-drivers", "removes-device-plugins")]
    assert in_process.kae(clone, "compile", *accepted).code == 0
    world.push(clone, "Rename the policy")

    assert world.run(clone, "ci/check.sh").returncode == 0
    assert world.run(clone, "ci/compile.sh", "main").returncode == 0


def template(name: str, shards: int | None = None) -> Any:
    """Return the data of a file that `kae init` writes."""
    return yaml.safe_load(init.texts("default", shards=shards)[name])


def test_the_job_of_a_pull_request_on_github_reads_and_has_no_secret() -> None:
    workflow = template(".github/workflows/kae.yaml")
    triggers, jobs = workflow[True], workflow["jobs"]  # `on` is true to PyYAML.

    assert set(triggers) == {"pull_request", "push"}
    assert workflow["permissions"] == {"contents": "read"}
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "check": None,
        "comment": {"contents": "read", "pull-requests": "write"},
        "compile": {"contents": "write"},
        "rehearse": None,
    }
    assert jobs["check"]["if"] == "github.event_name == 'pull_request'"
    assert jobs["compile"]["if"] == "github.event_name == 'push' || github.event_name == 'schedule'"
    assert jobs["check"]["steps"][0]["with"]["persist-credentials"] is False
    assert jobs["check"]["timeout-minutes"] == 15
    assert "secrets." not in str(workflow)


def test_the_job_that_comments_on_github_runs_nothing_of_the_pull_request() -> None:
    workflow = template(".github/workflows/kae.yaml")
    job = workflow["jobs"]["comment"]
    checkout, download, comment = job["steps"]

    assert checkout["with"] == {
        "persist-credentials": False,
        "ref": "${{ github.event.pull_request.base.sha }}",
        "sparse-checkout": "ci",
    }
    assert download["with"] == {"name": "review", "path": "review"}
    assert comment["run"].endswith("python3 -I ci/comment.py review/comment.md")
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]
    assert "needs.check.outputs.review" in job["if"]
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert workflow["concurrency"]["group"].endswith("|| github.run_id }}")


@pytest.mark.parametrize("shards", [None, 3])
def test_no_word_of_a_pull_request_is_pasted_into_a_script(shards: int | None) -> None:
    workflow, gitlab = (template(name, shards) for name in (".github/workflows/kae.yaml", ".gitlab-ci.yml"))
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    lines = [line for job in ("check", "review", "rehearse", "compile") for line in gitlab[job]["script"]]

    assert [step for step in steps if "${{" in step] == []
    for line in (*steps, *lines):
        assert "$" not in re.sub(r'"[^"]*"', "", line), line


def test_the_job_of_a_merge_request_on_gitlab_never_asks_for_the_token() -> None:
    gitlab = template(".gitlab-ci.yml")

    assert "TOKEN" not in str([gitlab["check"], gitlab["review"], gitlab["rehearse"], gitlab["default"]])
    assert gitlab["review"]["after_script"] == ["python3 -I ci/comment.py review/comment.md"]
    for name in ("check", "review"):
        assert gitlab[name]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]
    assert gitlab["compile"]["rules"][0]["if"].startswith("$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH")
