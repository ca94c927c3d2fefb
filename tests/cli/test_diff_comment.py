"""`kae diff -o markdown`, and `--format github` and `sarif`: a change where it is reviewed."""

import json
import re
from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compiler.views.diff import review
from tests import builders, in_process, project, revisions
from tests.cli import diffs, fleet
from tests.cli.answers import told


def comment(folder: Path, *arguments: str) -> str:
    """Return the comment on a change."""
    return told(folder, "diff", "-o", "markdown", *arguments)


@pytest.mark.parametrize("name", ["canary", "absent", "rename", "virtual functions", "drain", "another selector"])
def test_a_change_is_a_comment_with_a_table_on_top(rollout: Path, name: str, snapshot: SnapshotAssertion) -> None:
    diffs.change(rollout, name)

    assert diffs.anonymous(rollout, comment(rollout)) == snapshot


def test_what_takes_most_away_is_first(rollout: Path) -> None:
    diffs.edit(rollout, ("version: 1.4.1", "version: 1.5.0"))
    diffs.edit(rollout, ('"pool":"tls"', '"pool":"web"'), file="inventory/east.json")

    rows = re.findall(r"^\| \*\*(.+?)\*\*", comment(rollout), re.MULTILINE)

    assert rows[0] == "losing a component"
    assert rows.index("losing a component") < rows.index("pods restarting")


def test_a_node_that_leaves_is_counted_among_those_that_the_cluster_had(rollout: Path) -> None:
    diffs.lose_a_node(rollout)

    text = comment(rollout)

    assert text.startswith("### 1 of 24 nodes in cluster east is affected\n")
    said = "**On the other 23 nodes neither driver nor device plugin changes. 1 node leaves the inventory. No other"
    assert said in text


def test_a_change_that_does_nothing_gives_no_comment(rollout: Path) -> None:
    diffs.edit(rollout, ("# The TLS", "# All TLS"))
    diffs.label_assets(rollout)

    assert comment(rollout) == ""
    assert in_process.kae(rollout, "diff", "--format", "github").out.endswith(" to the working tree: no change\n")


def test_what_does_not_compile_is_an_error_in_every_format(rollout: Path) -> None:
    diffs.edit(rollout, ("maxParallel: 2", "maxParallel: two"))
    calls = {
        "json": ("--format", "json"),
        "github": ("--format", "github"),
        "sarif": ("--format", "sarif"),
        "markdown": ("-o", "markdown"),
        "data": ("-o", "json"),
        "quiet": ("--quiet",),
        "text": (),
    }

    answers = {name: in_process.kae(rollout, "diff", *options) for name, options in calls.items()}

    assert {answer.code for answer in answers.values()} == {1}
    github, comment = answers["github"].out, answers["markdown"].out
    assert github.startswith("::error file=policies/tls.yaml,title=wrong-type,line=17,col=20::Expected")
    (result,) = json.loads(answers["sarif"].out)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("wrong-type", "error")
    for name in ("json", "data"):
        (finding,) = json.loads(answers[name].out)["diagnostics"]
        assert (finding["code"], finding["severity"], finding["line"]) == ("wrong-type", "error", 17)
    assert comment.startswith("### What does not compile has no effect that could be shown\n")
    assert "policies/tls.yaml:17:20: error&#91;wrong-type&#93;" in comment
    assert "policies/tls.yaml:17:20: error[wrong-type]" in answers["quiet"].err
    assert answers["text"].err == ""


def test_what_did_not_compile_before_the_change_is_a_notice(rollout: Path) -> None:
    diffs.edit(rollout, ("maxParallel: 2", "maxParallel: two"))
    revisions.commit(rollout)
    diffs.edit(rollout, ("maxParallel: two", "maxParallel: 2"))

    github, sarif = (in_process.kae(rollout, "diff", "--format", form) for form in ("github", "sarif"))

    assert (github.code, sarif.code) == (0, 0)
    assert github.out.startswith("::notice file=policies/tls.yaml,title=earlier-error,line=17,col=20::HEAD (")
    (result,) = json.loads(sarif.out)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("earlier-error", "note")
    assert "does not compile, so what the change does is not known.\nExpected" in result["message"]["text"]


def test_risks_are_below_the_table_with_those_that_are_accepted(rollout: Path) -> None:
    downgrade(rollout)

    top, _, folded = comment(rollout, "--accept", "large-step").partition("<details>")

    assert "**Risks**" not in folded
    risks = listed(top[top.index("**Risks**") :])
    assert ("warning", "driver-downgrade") in risks
    assert risks[-1] == ("accepted", "large-step:east/tls")


def downgrade(folder: Path) -> None:
    """Take a driver without waves back to an earlier version."""
    diffs.change(folder, "no waves")
    revisions.commit(folder)
    diffs.edit(folder, ("version: 2.2.0", "version: 2.1.0"))


def listed(text: str) -> list[tuple[str, str]]:
    """Return the state and the scope of each risk."""
    return re.findall(r"^- \*\*(\w+)\*\* `([\w:/-]+)`", text, re.MULTILINE)


def test_a_risk_that_is_an_error_is_before_the_warnings(rollout: Path) -> None:
    downgrade(rollout)

    answer = in_process.kae(rollout, "diff", "-o", "markdown", "--fail-on", "large-step")

    assert (answer.code, listed(answer.out)[0]) == (1, ("error", "large-step"))


def test_privileges_that_objects_gain_are_told(rollout: Path) -> None:
    diffs.edit(rollout, ("  driver:\n", "  driver:\n    drain: {enabled: false}\n"))
    revisions.commit(rollout)
    diffs.edit(rollout, ("    drain: {enabled: false}\n", ""))

    text = comment(rollout)

    folded = text[text.index("<details><summary>Privileges") :].partition("</details>")[0]
    assert re.search(r"^  - `\+` .*pods/eviction", folded, re.MULTILINE)


LINK = "[x](http://y.z) www.w.v"
HOSTILE = f"a|b <script>alert(1)</script> `c` ``d @team #1 !2 ~3 {LINK} **bold** _it_ </details>\n/close\n"


def test_no_value_of_a_document_is_markup_or_a_mention(rollout: Path) -> None:
    variable = f"  driver:\n    env: [{{name: X, value: {json.dumps(HOSTILE)}}}]\n"
    diffs.edit(rollout, ("  driver:\n", variable))

    text = comment(rollout)

    assert "<script" not in text
    assert "@team" not in text
    assert text.count("</details>") == text.count("<details>")
    assert not re.search(r"^/", text, re.MULTILINE)
    (row,) = re.findall(r"^\| .*spec\.driver\.env.*$", text, re.MULTILINE)
    assert row.count("|") == 5


@hypothesis.given(st.text(max_size=60))
def test_code_is_one_cell_on_one_line_whatever_it_holds(text: str) -> None:
    shown = review.code(text)

    assert not {"\n", "\r", "|"} & set(shown)
    if shown.startswith("`"):
        assert "`" not in shown[1:-1]
        assert shown[1:-1].strip() == shown[1:-1] != ""
    else:
        assert re.fullmatch(r"<code>(?:\w|&#\d+;)*</code>", shown)


@hypothesis.given(st.text(max_size=60))
def test_prose_has_no_markup_no_mention_and_no_link(text: str) -> None:
    shown = review.prose(text)

    left = re.sub(r"&#\d+;", "", shown)
    assert not set("\\`*_[]<>|&@#!~$%^\n\r") & set(left)
    assert "://" not in shown
    assert "www." not in shown
    # What follows a mark of a reference is no name to a code host.
    for mark in "@#!~$%^":
        assert shown.count(f"&#{ord(mark)};") == shown.count(f"&#{ord(mark)};&#8203;")


def large(folder: Path, nodes: int, clusters: int) -> Path:
    """Write a fleet of nodes with long names, as committed, and change what each of them gets."""
    policies = []
    for number in range(clusters):
        known = tuple(
            builders.kubernetes_node(f"{number:03}-{index:05}-{'n' * 50}", builders.HPRE | {"pool": f"p{index % 7}"})
            for index in range(nodes)
        )
        project.write(folder, {f"inventory/cluster-{number:03}-{'c' * 20}.json": fleet.listed(known)})
    for pool in range(7):
        spec = {"nodeSelector": {"matchLabels": {"pool": f"p{pool}"}}, **builders.PINNED}
        policies.append(builders.raw("KAEPolicy", f"policy-{pool}-{'p' * 20}", spec))
    project.write(folder, {"policies/all.yaml": yaml.safe_dump_all(policies)})
    revisions.commit(folder)
    text = (folder / "policies/all.yaml").read_text().replace("2.2.0", "2.3.0").replace("1.4.1", "1.5.0")
    (folder / "policies/all.yaml").write_text(text)
    return folder


def test_a_comment_is_never_longer_than_code_hosts_take_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    text = comment(large(tmp_path, 300, 12))

    assert 50_000 < len(text.encode()) <= review.LIMIT < 65_536
    assert text.startswith("### 3600 of 3600 nodes in 12 clusters are affected\n")
    named = len(re.findall(r"^- `cluster-", text, re.MULTILINE))
    (more,) = re.findall(r"^… and (\d+) more nodes; `kae diff HEAD` shows all\.$", text, re.MULTILINE)
    assert named
    shown = sum(line.count("`, `") + 1 for line in re.findall(r"^- (`cluster-.*)$", text, re.MULTILINE))
    assert shown + int(more) == 3600
    assert text.count("</details>") == text.count("<details>")


def test_an_effect_is_a_notice_at_the_line_that_causes_it(rollout: Path) -> None:
    diffs.change(rollout, "canary")
    diffs.edit(rollout, ("version: 1.4.1", "version: 1.5.0"))

    lines = in_process.kae(rollout, "diff", "--format", "github").out.splitlines()

    first, second = (line for line in lines if line.startswith("::notice"))
    head = "::notice file=policies/tls.yaml,title=effect,line="
    assert first.startswith(f"{head}21,col=20::1 node of policy tls goes from driver 2.2.0")
    assert second.startswith(f"{head}26,col=14::23 nodes of policy tls go from")


def test_effects_are_notes_of_sarif(rollout: Path) -> None:
    diffs.change(rollout, "canary")

    (run,) = json.loads(in_process.kae(rollout, "diff", "--format", "sarif").out)["runs"]

    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("effect", "note")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 21
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["effect"]


def test_a_comment_and_annotations_are_two_answers(rollout: Path) -> None:
    assert in_process.kae(rollout, "diff", "-o", "markdown", "--format", "github").code == 2
