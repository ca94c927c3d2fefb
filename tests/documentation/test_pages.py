"""The documents say what holds: commands parse, links lead somewhere, excerpts are real, tables are in step."""

import argparse
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from compiler import cli, diagnostics
from compiler.project import package_data
from compiler.rendering import templates
from compiler.status import dra_devices
from docs import catalogue, commands, reference, support
from tests import in_process
from tests.documentation import behaviours
from tests.documentation.pages import FENCE, OURS, PAGES, ROOT, blocks, chapter, name, text_of
from tests.installer import machines

_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_KAE = re.compile(r"(?:^|\| |\$\(|/)kae (.*)")
_PLACEHOLDERS = {"I/N": "0/4", "@CLUSTER@": "east", "…": ""}


def code(text: str) -> Iterator[str]:
    """Everything on a page that stands as code: spans, and the lines of blocks that are no data."""
    prose = FENCE.sub("", text)
    yield from (line.strip() for line in prose.splitlines() if re.match(r" {4,}\S", line))
    yield from _CODE.findall(prose)


def kae_commands(text: str) -> Iterator[str]:
    """Yield the arguments of `kae` in each command line of a page, to the next pipe or redirection."""
    for line in code(re.sub(r"\\\n +", "", text)):
        for part in re.split(r" && | # ", line):
            for command in re.split(r" (?=\|)", part):
                found = _KAE.search(command)
                if found:
                    yield re.split(r" >|\)\"?$", found[1])[0]


def anchors(text: str) -> set[str]:
    """The names by which a page's headings are linked to, as GitHub makes them."""
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in _HEADING.findall(text)}


def commands_of_kae() -> set[str]:
    """The names of all commands."""
    actions = cli.parser()._actions
    return {each for action in actions if isinstance(action, argparse._SubParsersAction) for each in action.choices}


def assert_parses(command: str) -> None:
    """Fails where the command line is refused; a command's bare name stands for the command."""
    for placeholder, value in _PLACEHOLDERS.items():
        command = command.replace(placeholder, value)
    if command in commands_of_kae():
        return
    try:
        cli.parser().parse_args(shlex.split(command))
    except SystemExit as stop:
        assert not stop.code, f"kae {command}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_line_of_kae_parses(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in kae_commands(text_of(page)):
        assert_parses(command)


def test_the_commands_of_a_page_are_found_however_they_are_written() -> None:
    page = "Say `kae plan --nope`.\n\n    kubectl x | kae inventory --cluster a > b\n    cd x && ~/v/bin/kae init\n"
    page += "    kae compile \\\n        --check\n"

    assert sorted(kae_commands(page)) == ["compile --check", "init", "inventory --cluster a", "plan --nope"]


def test_a_command_line_that_does_not_parse_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="kae plan --nope"):
        assert_parses("plan --nope")


def test_every_command_is_on_the_page_of_commands() -> None:
    shown = re.findall(r"^## kae (\S+)$", text_of(commands.PAGE), re.MULTILINE)

    assert {*shown} == {each for each in commands_of_kae() if not each.startswith("_")}
    assert text_of(commands.PAGE) == commands.text(), "run `make docs`"


def test_the_rights_of_kae_status_are_those_that_it_needs_for_each_kind_that_is_made() -> None:
    text = (ROOT / "docs/examples/rights/status.yaml").read_text("utf-8")
    roles = {item["kind"]: item["rules"] for item in yaml.safe_load_all(text) if "rules" in item}
    granted = {
        (kind == "Role", group, resource)
        for kind, rules in roles.items()
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "list" in rule["verbs"]
    }

    made = templates.kinds(package_data.templates())

    needed = {(kind.namespaced, kind.group, _plural(kind.name)) for kind in made}
    # Those that device plugins publish.
    assert needed | {(False, dra_devices.API_VERSION.partition("/")[0], "resourceslices")} <= granted


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("ss"):
        return f"{name}es"
    return f"{name.removesuffix('y')}ies" if name.endswith("y") else f"{name.removesuffix('s')}s"


@pytest.mark.parametrize("page", OURS, ids=name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in _LINK.findall(FENCE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(text_of(target)), link


def test_every_page_of_docs_is_linked_from_the_readme_or_a_page_of_links() -> None:
    readme, decisions = ROOT / "README.md", ROOT / "docs/decisions/README.md"
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in (readme, decisions, ROOT / "docs/migration.md")
        for link in _LINK.findall(text_of(page))
    }

    assert set(ROOT.glob("docs/**/*.md")) - linked == {decisions}


def test_every_make_target_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))

    named = {target for page in OURS for line in code(text_of(page)) for target in re.findall(r"^make ([a-z-]+)", line)}

    assert named <= targets


def test_the_policy_reference_is_what_the_models_say() -> None:
    assert text_of(reference.REFERENCE) == reference.policy_reference(), "run `make docs`"


@pytest.mark.long
def test_the_catalogue_is_what_the_shipped_recipes_say_and_make() -> None:
    assert text_of(catalogue.PAGE) == catalogue.text(), "run `make docs`"
    assert {*catalogue.TRIED} == {*package_data.recipes()}


def test_the_page_of_support_is_what_the_tests_pin() -> None:
    assert text_of(support.PAGE) == support.text(), "run `make docs`"
    assert f"| 1.{real_minor()} | tested |" in text_of(support.PAGE)


def real_minor() -> str:
    """Return the minor release of the API server of the tests."""
    (version,) = re.findall(r"k8s\.io/kubernetes v1\.(\d+)\.", text_of(ROOT / "tests/cluster/go/kubernetes/go.mod"))[:1]
    return str(version)


def test_the_catalogue_has_the_rights_that_a_value_brings() -> None:
    onload = chapter(text_of(catalogue.PAGE), "onload")

    assert "| onload-driver | `privileged: installer` |  |\n" in onload
    assert "| onload-cplane | `hostNetwork` | controlPlane: true |\n" in onload


def test_the_page_of_findings_is_what_the_code_says() -> None:
    assert text_of(reference.FINDINGS) == reference.findings(), "run `make docs`"
    assert text_of(reference.EXAMPLES) == reference.examples(), "run `make docs`"


def test_every_code_has_a_section_with_its_own_finding() -> None:
    sections = text_of(reference.FINDINGS).split("\n## ")[1:]

    shown = {section.partition("\n")[0]: section for section in sections}

    assert list(shown) == list(diagnostics.CODES)
    for code, section in shown.items():
        assert f"{diagnostics.CODES[code].severity}[{code}]: " in section


def test_the_policy_in_the_readme_is_that_of_the_example() -> None:
    (policy,) = blocks(ROOT / "README.md", "yaml")

    assert policy in text_of(ROOT / "policies/tls.yaml")


def test_the_inventory_that_is_shown_is_that_of_the_example() -> None:
    (shown,) = blocks(ROOT / "docs/inventory.md", "text")

    assert text_of(ROOT / "inventory/east.json").startswith(shown)


def test_the_finding_that_is_shown_is_one_of_the_example() -> None:
    *_, shown = blocks(ROOT / "docs/operations.md", "text")

    answer = in_process.kae(ROOT, "plan")

    assert shown in answer.err


@pytest.mark.parametrize(
    "command", ["compile --check", "plan", "explain east/kp920-rack1-01", "preflight --kernel 6.6.0-1.aarch64"]
)
def test_every_field_of_an_answer_is_named(command: str) -> None:
    words = command.split()
    answer = json.loads(in_process.kae(ROOT, *words, "-o", "json").out)
    row = re.search(rf"^\| {words[0]} \| (.*) \|$", text_of(commands.PAGE), re.MULTILINE)
    clusters = answer.get("clusters", [])

    fields = answer.keys() - {"version", "diagnostics"} | {field for cluster in clusters for field in cluster}

    assert row
    assert {field for field in fields if f"`{field}`" not in row[1]} == set()


def test_the_tour_names_nothing_of_the_machine_that_it_was_recorded_on() -> None:
    text = text_of(ROOT / "docs/tour.md")

    assert set(re.findall(r"\bkernel (\d[^\s,]*)", text)) == {machines.KERNEL}
    assert re.findall(r"\b198\.1[89]\.\S*|(?<![\w.~])/(?:tmp|root|home|dev/shm|var/lib/kae-cluster)\b\S*", text) == []


def test_the_diff_of_a_made_up_kind_stands_where_the_code_still_is() -> None:
    (diff,) = blocks(ROOT / "CONTRIBUTING.md", "diff")

    for part in diff.split("--- a/")[1:]:
        file, *lines = part.splitlines()
        source = text_of(ROOT / file).splitlines()
        assert [line[1:] for line in lines if line.startswith(" ") and line[1:] not in source] == []


def test_architecture_gives_a_reason_for_each_dependency() -> None:
    wanted = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["dependencies"]
    table = text_of(ROOT / "ARCHITECTURE.md").partition("## Dependencies")[2]

    named = {row.lower() for row in re.findall(r"^\| ([\w-]+) \|", table, re.MULTILINE)} - {"package"}

    assert named == {re.split(r"[<>=]", each)[0] for each in wanted}


@pytest.mark.long
def test_each_documented_finding_command_and_field_has_a_test() -> None:
    assert [f"{each.sort} {each.name}" for each in behaviours.every() if each.test is None] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_merge_has_left_marks_or_halves_on_a_page(page: Path) -> None:
    text = text_of(page)
    prose = FENCE.sub("", text).replace("```", "")
    parts = re.split(r"\n(?=\n| *[-*#|] | *[0-9]+\. )", prose)

    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", text, re.MULTILINE) == []
    # Code that nothing closes swallows the links behind it.
    assert [part for part in parts if part.count("`") % 2] == []
