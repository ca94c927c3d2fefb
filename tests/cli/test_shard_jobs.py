"""`kae init --shards N` writes jobs that share out the clusters; here they run beside each other, with real git."""

import concurrent.futures
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.commands import init
from tests import in_process, project
from tests.cli import jobs, sharded
from tests.cli.answers import refused
from tests.cli.jobs import ACTIONS, World, commands, inventory

pytestmark = pytest.mark.long

COUNT = 3
ACCEPTED = "Kae-Accept: removes-drivers\nKae-Accept: removes-device-plugins"
SHARDS = tuple(f"{index}/{COUNT}" for index in range(COUNT))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A fleet whose main line is compiled; not to be changed."""
    world = World(tmp_path_factory.mktemp("shards"), repository_root)
    sharded.begin(world, COUNT)
    return world.bare


def job(world: World, shard: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the compile job of a shard in a clone of its own."""
    clone = world.clone(f"job-{len(list(world.folder.iterdir()))}-{shard.replace('/', '-')}")
    return world.run(clone, "ci/compile.sh", "main", KAE_SHARD=shard, **more)


def assert_compiled(world: World) -> None:
    """Assert that the main line holds what one compile of its documents makes."""
    assert world.git(world.bare, "rev-parse", "main:output") == sharded.tree_of_one_compile(world)


def template(name: str) -> Any:
    """Return the data of a file that `kae init --shards` writes."""
    return yaml.safe_load(init.texts("default", shards=COUNT)[name])


def test_without_shards_no_file_says_a_word_of_them() -> None:
    plain = init.texts("default")

    assert [name for name, text in plain.items() if "shard" in text.lower() or "#@" in text] == []
    assert plain.keys() == init.texts("default", shards=2).keys()


def test_with_shards_no_mark_of_a_template_is_left() -> None:
    for name, text in init.texts("default", shards=2).items():
        assert not re.search("#@|@SHARDS@|@COUNT@", text), name


@pytest.mark.parametrize("number", ["0", "1", "201", "-2", "2.0", "two"])
def test_a_number_of_shards_that_no_code_host_runs_is_refused(tmp_path: Path, number: str) -> None:
    said = f"'{number}' is not a number of shards; use a number from 2 to 200."

    assert said in refused(2, tmp_path, "init", f"--shards={number}")
    assert project.tree(tmp_path) == {}


def test_a_repository_that_is_there_keeps_its_jobs_and_the_command_says_so(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init", "fleet")
    before = project.tree(tmp_path / "fleet")

    said = refused(3, tmp_path, "init", "fleet", "--shards=4", "--wheel", str(jobs.a_wheel(tmp_path / "wheel")))

    assert "would be overwritten; nothing was written." in said
    assert project.tree(tmp_path / "fleet") == before


def test_each_shard_is_a_job_on_both_code_hosts() -> None:
    jobs, gitlab = template(".github/workflows/kae.yaml")["jobs"], template(".gitlab-ci.yml")

    for name in ("shard", "compile"):
        assert jobs[name]["strategy"] == {"fail-fast": False, "matrix": {"shard": list(SHARDS)}}
        assert gitlab[name]["parallel"] == {"matrix": [{"KAE_SHARD": list(SHARDS)}]}
        assert gitlab[name]["artifacts"] == {"when": "always", "paths": ["findings/"]}
    # Two jobs of one group would wait for each other, and a third would end the second.
    assert "matrix.shard" in jobs["compile"]["concurrency"]["group"]
    assert "$KAE_SHARD" in gitlab["compile"]["resource_group"]


@pytest.mark.parametrize(("verdict", "waits_for"), [("check", "shard"), ("compiled", "compile")])
def test_the_verdict_waits_for_every_shard_and_is_never_skipped_when_one_fails(verdict: str, waits_for: str) -> None:
    github, gitlab = template(".github/workflows/kae.yaml")["jobs"][verdict], template(".gitlab-ci.yml")[verdict]

    assert github["needs"] == waits_for
    assert github["if"].startswith("${{ always() &&")
    assert gitlab["needs"] == [waits_for]
    assert [rule["when"] for rule in gitlab["rules"]] == ["always"]
    (merge,) = (line for line in gitlab["script"] if "findings/*.json" in line)
    (step,) = (line["run"] for line in github["steps"] if "findings/*.json" in line.get("run", ""))
    assert step.replace("--format github ", "") == merge


def test_only_jobs_that_push_may_write_and_no_shard_of_a_pull_request_has_a_secret() -> None:
    workflow, gitlab = template(".github/workflows/kae.yaml"), template(".gitlab-ci.yml")
    jobs = workflow["jobs"]

    assert workflow["permissions"] == {"contents": "read"}
    assert {name for name, job in jobs.items() if "permissions" in job} == {"comment", "compile"}
    assert "secrets." not in str(workflow)
    assert all(jobs[name]["steps"][0]["with"]["persist-credentials"] is False for name in ("shard", "compiled"))
    assert "TOKEN" not in str([gitlab[name] for name in ("shard", "check", "compiled")])
    assert "github.event_name == 'pull_request'" in jobs["shard"]["if"]


def check(world: World, clone: Path, chosen: Iterable[str] = SHARDS, **more: str) -> dict[str, int]:
    """Run the checks of shards in a clone, and then the verdict; return the exit codes."""
    shutil.rmtree(clone / "findings", ignore_errors=True)
    codes = {shard: world.run(clone, "ci/check.sh", KAE_SHARD=shard, **more).returncode for shard in chosen}
    return codes | {"verdict": verdict(world, clone, **more).returncode}


def verdict(world: World, clone: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the job behind the shards."""
    return world.run(clone, "bash", "-c", "ci/check.sh findings/*.json", **more)


def test_a_pull_request_whose_output_is_compiled_passes(world: World) -> None:
    assert set(check(world, world.clone("a")).values()) == {0}


@pytest.mark.long
def test_stale_output_of_one_cluster_fails_in_its_shard_and_in_the_verdict(world: World, clone: Path) -> None:
    (clone / f"output/{sharded.of_shard(SHARDS[1])[0]}/kustomization.yaml").unlink()

    codes = check(world, clone)

    assert codes == {shard: 4 if shard == SHARDS[1] else 0 for shard in SHARDS} | {"verdict": 4}
    assert "Run 'kae compile', and commit output/." in verdict(world, clone).stderr


@pytest.mark.long
def test_an_error_that_only_all_clusters_together_show_fails_the_verdict_alone(world: World, clone: Path) -> None:
    policy = clone / "policies/policy.yaml"
    text = policy.read_text("utf-8")
    for name, operator in (("kae", "DoesNotExist"), ("nowhere", "Exists")):
        spec = f"spec:\n  nodeSelector: {{matchExpressions: [{{key: site, operator: {operator}}}]}}\n"
        named = text.replace("name: kae\n", f"name: {name}\n").replace("spec:\n", spec, 1)
        policy.with_stem(name).write_text(named, "utf-8")
    policy.unlink()
    assert in_process.kae(clone, "compile").code == 0
    jobs.edit(clone, "kae.yaml", "findings:\n", "findings:\n  policy-matches-nothing: error\n")

    codes = check(world, clone)

    assert codes == dict.fromkeys(SHARDS, 0) | {"verdict": 1}
    assert "error[policy-matches-nothing]: Policy 'nowhere' matches no node." in verdict(world, clone).stderr


def test_a_shard_that_has_found_nothing_because_it_never_ran_is_no_success(world: World, clone: Path) -> None:
    assert check(world, clone, SHARDS[1:])["verdict"] not in (0, 4)
    assert check(world, clone, ())["verdict"] not in (0, 4)


def test_no_line_of_a_shards_check_is_a_workflow_command(world: World, clone: Path) -> None:
    policy = clone / "policies/policy.yaml"
    variable = '  driver:\n    env:\n    - name: X\n      value: "a\\n::error::hello\\n##[add-mask]the\\n"\n'
    policy.write_text(policy.read_text("utf-8").replace("  driver:\n", variable), "utf-8")

    done = world.ended(4, clone, "ci/check.sh", KAE_SHARD=SHARDS[0], **ACTIONS)

    assert "::error::hello" in done.stdout
    assert [one.split()[0] for one in commands(done.stdout + done.stderr)] == ["stop-commands"]


@pytest.mark.long
def test_jobs_of_all_shards_at_once_make_what_one_compile_makes(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    gone = sharded.CLUSTERS[3]
    (clone / f"policies/{gone}.yaml").unlink()
    (clone / f"inventory/{gone}.json").unlink()
    world.push(clone, f"Serve SEC, and give up a cluster\n\n{ACCEPTED}")
    findings = world.folder / "findings"

    with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
        done = list(pool.map(lambda shard: job(world, shard, KAE_FINDINGS=str(findings)), SHARDS))

    assert [one.returncode for one in done] == [0] * COUNT, "\n---\n".join(one.stderr for one in done)
    assert_compiled(world)
    assert f"output/{gone}" not in world.git(world.bare, "ls-tree", "-r", "--name-only", "main")
    made = world.git(world.bare, "log", f"--format={sharded.SHARD}", "--max-count", str(COUNT), "main").split()
    assert sorted(made) == list(SHARDS)
    for number, shard in enumerate(made):
        changed = world.git(world.bare, "diff", "--name-only", f"main~{number + 1}", f"main~{number}").splitlines()
        assert {name.split("/")[1] for name in changed} == {*sharded.of_shard(shard)}
    after = world.clone("after")
    assert world.run(after, "ci/check.sh").returncode == 0
    files = sorted(findings.iterdir())
    assert [path.name for path in files] == [f"{index}-of-{COUNT}.json" for index in range(COUNT)]
    merged = in_process.kae(after, "merge-findings", *map(str, files))
    assert merged.code == 0, merged.err


@pytest.mark.long
def test_a_shard_whose_push_is_refused_loses_nothing_of_the_others_and_runs_again(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    world.push(clone, "Serve SEC")
    world.install(world.bare / "hooks/pre-receive", "exit 1")

    refused = job(world, SHARDS[1])
    (world.bare / "hooks/pre-receive").unlink()
    done = [job(world, shard) for shard in (SHARDS[0], SHARDS[2], SHARDS[1])]

    assert refused.returncode == 1
    assert "The push was refused, and main has not moved." in refused.stderr
    assert [one.returncode for one in done] == [0] * COUNT
    assert_compiled(world)


@pytest.mark.long
def test_a_branch_that_another_push_holds_for_a_moment_is_a_lost_race_and_no_refusal(world: World) -> None:
    ours, theirs = world.clone("ours"), world.clone("theirs")
    (theirs / "README.md").write_text("Ours.\n", "utf-8")
    world.commit(theirs, "Say less")
    jobs.serve_sec(ours)
    world.push(ours, "Serve SEC")
    world.git(theirs, "pull", "--quiet", "--rebase")
    lock = world.bare / "refs/heads/main.lock"
    # git-receive-pack holds the branch while the push of another one is not yet done; the script waits for its end.
    world.install(ours / ".git/hooks/pre-push", f"[ -e raced ] || touch raced '{lock}'")
    release = f"rm '{lock}' && git -C '{theirs}' push --quiet"
    world.install(world.folder / "bin/sleep", f"[ ! -e '{lock}' ] || ({release})")

    done = world.ended(0, ours, "ci/compile.sh", "main", KAE_SHARD=SHARDS[0])

    assert "main has moved; attempt 1 of 12." in done.stderr
    assert world.subjects()[-3:-1] == ["Serve SEC", "Say less"]


@pytest.mark.long
def test_a_trailer_counts_for_a_shard_below_the_commits_of_others(world: World, clone: Path) -> None:
    removed = sharded.of_shard(SHARDS[0])[0]
    policy = clone / "policies/policy.yaml"
    others = ", ".join(name for name in sharded.CLUSTERS if name != removed)
    text = policy.read_text("utf-8").replace("enabledSEC: false", "enabledSEC: true")
    policy.write_text(text.replace("spec:\n", f"spec:\n  clusters: [{others}]\n", 1), "utf-8")
    accepted = "\n".join(f"{line}:{removed}" for line in ACCEPTED.splitlines())
    world.push(clone, f"Leave one out\n\n{accepted}")

    done = [job(world, shard) for shard in reversed(SHARDS)]

    assert [one.returncode for one in done] == [0] * COUNT, done[-1].stderr
    assert_compiled(world)


@pytest.mark.long
def test_a_trailer_does_not_count_again_below_the_shards_own_commit(world: World, clone: Path) -> None:
    jobs.serve_sec(clone)
    world.push(clone, "Serve SEC\n\nKae-Accept: inventory-empty")
    assert [job(world, shard).returncode for shard in SHARDS[:2]] == [0, 0]
    name = sharded.of_shard(SHARDS[0])[0]
    world.watch(f"inventory/{name}", {f"inventory/{name}.json": inventory(cluster=name)})

    done = job(world, SHARDS[0])

    assert done.returncode == 1
    assert "error[inventory-empty]" in done.stderr


@pytest.mark.long
def test_a_shard_takes_the_inventories_of_its_own_clusters_alone(world: World) -> None:
    watched = {name: inventory("new", cluster=name) for shard in SHARDS[:2] for name in sharded.of_shard(shard)}
    for name, text in watched.items():
        world.watch(f"inventory/{name}", {f"inventory/{name}.json": text})

    done = job(world, SHARDS[0])

    assert done.returncode == 0, done.stderr
    assert "ignored" not in done.stderr
    taken = [name for name, text in watched.items() if world.text(f"inventory/{name}.json") == text.strip()]
    assert taken == sharded.of_shard(SHARDS[0])
    assert job(world, SHARDS[1]).returncode == 0
    assert world.text(f"inventory/{sharded.of_shard(SHARDS[1])[0]}.json").count('"new"') == 1
    assert_compiled(world)
