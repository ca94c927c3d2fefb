"""Forty mutants at every test run; `python -m tests.fuzz` tries as many as there is time for."""

import json
from pathlib import Path

import pytest

from compiler import pipeline
from tests import effort, in_process, project
from tests.fuzz import corpus, mutants, trial

pytestmark = pytest.mark.long

SEED = 20
EACH = 40


@pytest.mark.seeded
@pytest.mark.parametrize("part", range(effort.examples(gate=1, long=12)))
def test_mutated_documents_compile_or_are_refused_and_nothing_else_happens(part: int, tmp_path: Path) -> None:
    bench = trial.Bench(tmp_path)

    results = [bench.run(mutants.mutant(SEED, number)) for number in range(part * EACH, (part + 1) * EACH)]

    assert [(result.number, result.fault) for result in results if result.fault] == []
    assert {result.code for result in results} == {0, 1}
    assert sum(result.code == 0 for result in results) >= EACH // 10


@pytest.mark.long
def test_what_compiles_is_read_back_by_other_readers(tmp_path: Path) -> None:
    bench = trial.Bench(tmp_path)
    seed = next(seed for seed in corpus.seeds() if seed.name.startswith("lab/policies"))

    result = bench.run(mutants.Mutant(trial.JUDGED, seed.name, mutants.NEAR, seed.files))

    assert result.code == 0
    assert result.fault == ""


def test_a_mutant_is_the_same_each_time() -> None:
    first = [mutants.mutant(SEED, number) for number in range(40)]

    assert [mutants.mutant(SEED, number) for number in reversed(range(40))] == first[::-1]
    assert mutants.mutant(SEED, 1) != mutants.mutant(SEED + 1, 1)


@pytest.mark.long
def test_every_seed_compiles(tmp_path: Path) -> None:
    bench = trial.Bench(tmp_path)

    results = {seed.name: bench.run(mutants.Mutant(2, seed.name, "", seed.files)) for seed in corpus.seeds()}

    assert {name: result.fault or result.code for name, result in results.items()} == dict.fromkeys(results, 0)


def test_words_of_a_document_are_said_on_one_line(tmp_path: Path) -> None:
    text = "apiVersion: device.openfuyao.com/v1alpha1\nkind: KAEPolicy\nmetadata: {name: tls}\n"
    spec = 'spec: {driver: {moduleParameters: {"a\\n\\e[31m": {}}, env: [{name: INSTALL_POLICY, value: "a\\tb"}]}}\n'
    project.write(tmp_path, {"policies/tls.yaml": text + spec})

    answer = in_process.kae(tmp_path, "compile", "-o", "json")

    messages = [found["message"] for found in json.loads(answer.out)["diagnostics"] if found["severity"] == "error"]
    assert messages
    assert all(message.isprintable() for message in messages)


def test_an_exception_that_escapes_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = corpus.seeds()[0]
    monkeypatch.setattr(pipeline, "plan_policies", lambda *_: dict[str, str]()["a bug"])

    result = trial.Bench(tmp_path).run(mutants.Mutant(2, seed.name, "", seed.files))

    assert "KeyError: 'a bug'" in result.fault


def test_the_longest_names_can_be_written(tmp_path: Path) -> None:
    head = "apiVersion: device.openfuyao.com/v1alpha1\n"
    argocd = f"argocd: {{project: {'p' * 100}}}, repository: {{url: 'https://a'}}"
    cluster = f"kind: KAECluster\nmetadata: {{name: {'c' * 50}}}\nspec: {{gitops: {{engine: argocd, {argocd}}}}}\n"
    policy = f"kind: KAEPolicy\nmetadata: {{name: {'p' * 30}}}\nspec: {{driver: {{version: '1'}}}}\n"
    project.write(tmp_path, {"policies/all.yaml": f"{head}{cluster}---\n{head}{policy}"})

    answer = in_process.kae(tmp_path, "compile", "--no-cache")

    assert answer.code == 0, answer.err
    assert all(len(Path(name).name) <= 143 for name in project.tree(tmp_path / "output"))
