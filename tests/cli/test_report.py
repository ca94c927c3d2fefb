"""`kae report`: the fleet as one file, which shows what the plan says and trusts no value."""

import base64
import hashlib
import json
import re
from collections import Counter
from html import parser
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from compiler import diagnostics
from compiler.changes import acceptance, deletions, difference, objects
from compiler.fleet import definitions
from compiler.inventory import snapshot
from compiler.project import package_data
from compiler.rendering import privileges
from compiler.views.diff import risk_groups, sentences
from compiler.views.report import data as report_data
from compiler.views.report import page as report_page
from tests import builders, in_process, project, revisions
from tests.browser import fleets
from tests.cli import diffs, fleet
from tests.cli.answers import refused, warned
from tests.failures import projects as failures

EVIL = "</script><script>alert(1)</script><img src=x>"
HOSTILE = "</script><script>alert(1)</script><!--\u2028\u2029&amp;\"'`${1}{{ 7 }}"


class Page(parser.HTMLParser):
    """The elements of a page, with the text of those that hold nothing else."""

    VOID = frozenset(("input", "meta", "br"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        """The name of the element around each text, and the text."""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.texts.append((self._open[-1], data))

    def named(self, tag: str) -> list[dict[str, str]]:
        """The attributes of each element with this name."""
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag: str) -> list[str]:
        """The texts in elements with this name."""
        return [text for name, text in self.texts if name == tag]

    @property
    def data(self) -> Any:
        """The data of the page."""
        return json.loads(self.text("script")[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose nodes meet every fate."""
    return fleet.full(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    """The page of the project."""
    answer = in_process.kae(folder, "report", "--html", "fleet.html")
    assert (answer.code, answer.out) == (0, "fleet.html: 6 nodes in 2 clusters\n")
    assert "warning[node-unknown]" in answer.err
    return Page((folder / "fleet.html").read_text("utf-8"))


@pytest.fixture(scope="module")
def hostile() -> Page:
    """The page of a fleet in which every word tries to break out; a schema would refuse most of them."""
    policy = structs.replace(builders.policy(**builders.PINNED), name=definitions.PolicyName(HOSTILE))
    machine = builders.profile({**builders.HPRE, HOSTILE: HOSTILE}, os_image=HOSTILE, kernel_version=HOSTILE)
    node = builders.node(HOSTILE, {HOSTILE: HOSTILE}, machine)
    cluster = structs.replace(builders.cluster(), name=snapshot.ClusterName(HOSTILE))
    view, _ = builders.view([policy], [node], cluster)
    finding = diagnostics.Diagnostic(code="node-unknown", span=diagnostics.Span(file=HOSTILE), message=HOSTILE)
    return Page("".join(report_page.text([view], [finding], package_data.report())))


def nodes_of(page: Page, name: str) -> dict[str, Any]:
    """The facts of each node of a cluster by its name, put together as the page's script does."""
    (cluster,) = (one for one in page.data["clusters"] if one["name"] == name)
    return {node: cluster["facts"][alike] for node, alike in zip(cluster["names"], cluster["alike"], strict=True)}


def test_the_page_says_of_each_node_what_the_plan_says(folder: Path, page: Page) -> None:
    planned = json.loads(in_process.kae(folder, "plan", "-o", "json").out)

    for cluster in planned["clusters"]:
        shown = nodes_of(page, cluster["name"])
        assert sorted(shown) == [node["name"] for node in cluster["nodes"]]
        for node in cluster["nodes"]:
            fact = shown[node["name"]]
            assert (fact["policy"], fact["pool"]) == (node["policy"], node["pool"])
            assert (fact["driver"], fact["plugin"]) == (node["driver"], node["devicePlugin"])
            assert fact["resources"] == [f"{key.partition('/')[2]}={count}" for key, count in node["resources"].items()]
            why = "\n".join(reason for _, reason in fact["why"])
            assert all(reason.partition(": ")[2] in why for reason in node["reasons"])


def test_each_node_has_the_state_that_its_components_give_it(page: Page) -> None:
    states = {name: fact["state"] for name, fact in nodes_of(page, "east").items()}

    problems = dict.fromkeys(("kp920-04", "new-01"), "problem")
    others = {"kp920-01": "complete", "kp920-02": "optOut", "kp920-03": "plugin", "x86-01": "none"}
    assert states == others | problems
    assert set(states.values()) <= set(page.data["head"]["states"])


def test_the_page_begins_with_the_number_of_problems_and_a_link_to_them(page: Page) -> None:
    links = [one["href"] for one in page.named("a")]

    assert page.text("b")[:3] == ["2", "1", "6"]
    assert "#state=problem" in links
    assert "its devices are unknown" in " ".join(page.text("span"))


def test_an_opt_out_is_no_problem_and_has_a_number_that_leads_to_its_nodes(page: Page) -> None:
    said = {reason for _, reason in nodes_of(page, "east")["kp920-02"]["why"]}

    assert "opted out" not in " ".join(page.text("span"))
    assert "#state=optOut" in [one["href"] for one in page.named("a")]
    assert "it has opted out: openfuyao.com/kae.deploy.driver=false" in said


def test_a_node_without_labels_of_nfd_is_unknown_unless_nothing_waits_for_them(tmp_path: Path) -> None:
    alone = builders.node("new-01", {}, builders.profile({}, discovered=False))
    dark = builders.recipe("net")
    cases = {
        "no policy": ([builders.selecting("tls", pool="tls")], "unknown"),
        "a policy that takes it": ([builders.policy()], "problem"),
        "a recipe for every node alone": (
            [builders.device_policy("lab", dark, nodeSelector={"matchLabels": {"pool": "lab"}})],
            "none",
        ),
    }
    for name, (policies, state) in cases.items():
        view, _ = builders.view(policies, [alone])
        (fact,) = report_data.of_cluster("east", view)["facts"]
        assert fact["state"] == state, name
        assert report_data.states([view]) == {state: 1}


def test_the_figures_count_the_nodes_of_each_state(tmp_path: Path) -> None:
    place = fleets.large(tmp_path, nodes=300)
    (place / "page.html").write_text("")
    assert in_process.kae(place, "report", "-q", "--html", "page.html").code == 0
    page = Page((place / "page.html").read_text("utf-8"))

    for key in ("problem", "optOut"):
        shown = sum(
            cluster["facts"][alike]["state"] == key for cluster in page.data["clusters"] for alike in cluster["alike"]
        )
        figure = next(at for at, (tag, one) in enumerate(page.elements) if one.get("href") == f"#state={key}")
        assert shown > 0
        assert str(shown) in page.text("b")
        assert page.elements[figure + 1][0] == "b"


def test_a_finding_is_on_the_page_with_its_code_and_its_place(page: Page) -> None:
    assert "node-unknown" in page.text("code")
    assert "inventory/east.json" in page.text("small")


def test_findings_that_the_project_ignores_are_counted(tmp_path: Path) -> None:
    place = project.write(fleet.full(tmp_path), {"kae.yaml": "findings: {node-unknown: ignore}\n"})

    assert in_process.kae(place, "report", "-q", "--html", "page.html").code == 0

    page = Page((place / "page.html").read_text("utf-8"))
    assert "node-unknown" not in page.text("code")
    assert any("ignored" in text and "node-unknown" in text for text in page.text("p"))


def test_the_page_loads_nothing_and_runs_only_its_own_script(page: Page) -> None:
    (policy,) = (one["content"] for one in page.named("meta") if one.get("http-equiv") == "Content-Security-Policy")
    style, script = page.text("style"), page.text("script")[1:]

    assert policy.startswith("default-src 'none'; ")
    for directive, (text,) in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "onclick", "onload"} & attributes.keys(), tag
        assert attributes.get("href", "#").startswith("#")
    assert "http" not in "".join([*style, *script]).replace("http-equiv", "")
    assert "innerHTML" not in "".join(script)


def test_every_part_has_one_name_and_every_control_a_label(page: Page) -> None:
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    targets = [one["href"][1:] for one in page.named("a") if "=" not in one["href"]]
    described = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]

    assert set(ids.values()) == {1}
    assert set(targets) | set(described) <= set(ids)
    assert {"header", "nav", "main", "form", "output", "noscript"} <= {tag for tag, _ in page.elements}
    assert len(page.named("label")) == len(page.named("input")) + len(page.named("select"))
    assert all(one["scope"] == "col" for one in page.named("th"))


def test_no_value_of_a_document_or_a_node_becomes_a_part_of_the_page(page: Page, hostile: Page) -> None:
    (cluster,) = hostile.data["clusters"]
    (fact,) = cluster["facts"]

    assert [*map(len, (hostile.named("script"), hostile.named("style")))] == [2, 1]
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in page.elements}
    assert cluster["names"] == [HOSTILE]
    assert f"{HOSTILE}={HOSTILE}" in cluster["labelTexts"]
    assert fact["policy"] == HOSTILE
    assert HOSTILE in hostile.text("a")


def test_each_state_and_change_has_a_form_beside_its_colour() -> None:
    script = package_data.report()["picture.js"]
    forms = dict(re.findall(r"(\w+): \"([a-z ]+)\"", script))

    for keys in (report_data.STATES, sentences.CHANGES):
        assert len({forms[key] for key in keys}) == len(keys)


@pytest.mark.parametrize("is_dark", [False, True])
def test_texts_and_cells_stand_out_from_the_paper_as_wcag_wants(*, is_dark: bool) -> None:
    light, dark = package_data.report()["page.css"].split("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", light))
    if is_dark:
        colours |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", dark))
    papers, texts = ("paper", "raised"), ("ink", "soft", "accent", "alarm")
    cells = set(colours) - {*papers, *texts, "line", "alarm-paper", "shade"}

    assert cells == {*report_data.STATES, *sentences.CHANGES, "other", *(f"c{number}" for number in range(8))}
    for paper in papers:
        assert [text for text in texts if contrast(colours[text], colours[paper]) < 4.5] == []
    assert contrast(colours["alarm"], colours["alarm-paper"]) >= 4.5
    assert [cell for cell in cells if contrast(colours[cell], colours["paper"]) < 3] == []


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of a colour such as #fff or #1a1f26."""
    digits = colour[1:] if len(colour) > 4 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_same_documents_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    places = (folder, fleet.full(tmp_path / "elsewhere"))
    for place in places:
        assert in_process.kae(place, "report", "-q", "--html", "again.html").code == 0

    assert len({(place / "again.html").read_bytes() for place in places}) == 1


def test_a_page_is_about_the_chosen_clusters_alone(folder: Path) -> None:
    answer = in_process.kae(folder, "report", "--html", "west.html", "--cluster", "west")

    assert answer.out == "west.html: 0 nodes in 1 cluster\n"
    shown = Page((folder / "west.html").read_text("utf-8"))
    assert [cluster["name"] for cluster in shown.data["clusters"]] == ["west"]
    assert "No inventory holds a node." in shown.text("p")


def test_a_file_that_cannot_be_written_is_said(folder: Path) -> None:
    said = "kae: 'nowhere/fleet.html' cannot be written: No such file or directory.\n"

    assert refused(3, folder, "report", "--html", "nowhere/fleet.html") == said


def test_the_file_is_named_from_where_the_command_runs(folder: Path) -> None:
    answer = in_process.kae(folder / "policies", "report", "-q", "--html", "../below.html")

    assert answer.code == 0
    assert (folder / "below.html").is_file()


def changed(folder: Path, *arguments: str) -> Page:
    """The page with the change since the last commit."""
    answer = in_process.kae(folder, "report", "-q", "--html", "page.html", *arguments, "HEAD")
    assert answer.code == 0, answer.err
    return Page((folder / "page.html").read_text("utf-8"))


def effects(page: Page, cluster: str = "east") -> dict[str, Any]:
    """What happens to each node of a cluster to which something does."""
    (data,) = (one for one in page.data["clusters"] if one["name"] == cluster)
    numbers = zip(data["names"], data["effectOf"] or [0] * len(data["names"]), strict=True)
    return {name: data["effects"][number - 1] for name, number in numbers if number}


def test_the_page_says_of_each_node_before_and_after_what_the_difference_says(rollout: Path) -> None:
    diffs.change(rollout, "canary")
    diffs.edit(rollout, ("version: 1.4.1", "version: 1.5.0"))
    told = {name: effect for effect in diffs.data(rollout)["effects"] for name in effect["nodes"]}

    shown = effects(changed(rollout))

    assert shown.keys() == told.keys()
    for name, effect in told.items():
        for side in ("before", "after"):
            was, now = effect[side], shown[name][side]
            assert now["plugin"] == was["devicePlugin"]
            for key in ("policy", "pool", "group", "driver", "version"):
                assert now[key] == was[key]


def test_what_takes_most_away_is_the_first_on_the_page(rollout: Path) -> None:
    diffs.change(rollout, "canary")
    diffs.edit(rollout, ("version: 1.4.1", "version: 1.5.0"))
    inventory = json.loads((rollout / "inventory/east.json").read_text())
    inventory["spec"]["nodes"][5]["labels"] = {}
    left = inventory["spec"]["nodes"].pop(3)["name"]
    (rollout / "inventory/east.json").write_text(json.dumps(inventory))

    page = changed(rollout)

    marks = [one["data-mark"] for one in page.named("li") if "data-mark" in one]
    assert marks == sorted(marks, key=list(sentences.CHANGES).index)
    assert {"loses", "gone", "swaps", "restarts"} == set(marks)
    assert effects(page)[left]["after"] is None
    assert nodes_of(page, "east")[left]["state"] == "gone"
    assert page.text("b")[:4] == ["1", "1", "1", "21"]


def test_nodes_to_which_nothing_happens_are_counted_and_no_risk_is_no_list(rollout: Path) -> None:
    diffs.change(rollout, "canary")

    page = changed(rollout)

    assert [one["href"] for one in page.named("a") if "change=" in one["href"]] == ["#change=swaps", "#change=same"]
    assert page.text("b")[:2] == ["1", "23"]
    assert len(effects(page)) == 1
    assert risks(page) == []
    assert "Risks" not in page.text("h3")


def test_what_happens_to_nodes_of_a_recipe_is_in_the_picture(tmp_path: Path) -> None:
    project.write(tmp_path, failures.npu())
    revisions.commit(tmp_path)
    project.write(tmp_path, failures.npu("d802"))

    page = changed(tmp_path)

    assert {effect["change"] for effect in effects(page).values()} == {"mayLose"}
    assert page.text("b")[:1] == ["4"]
    (told,) = (element for element in page.named("a") if element["href"].startswith("#effect="))
    assert told["href"] == "#effect=0"


def test_a_cluster_that_is_gone_is_in_the_picture(rollout: Path) -> None:
    for file in [*(rollout / "policies").rglob("*.yaml"), rollout / "inventory/east.json"]:
        file.write_text(file.read_text("utf-8").replace("east", "west"), encoding="utf-8")
    (rollout / "inventory/east.json").rename(rollout / "inventory/west.json")

    page = changed(rollout)

    assert [cluster["name"] for cluster in page.data["clusters"]] == ["east", "west"]
    assert {effect["change"] for effect in effects(page, "east").values()} == {"gone"}
    assert {effect["change"] for effect in effects(page, "west").values()} == {"joins"}


def test_a_page_without_a_change_says_so(rollout: Path) -> None:
    page = changed(rollout)

    assert "Nothing differs." in page.text("p")
    assert effects(page) == {}


def test_a_revision_that_does_not_compile_is_said_and_not_fatal(rollout: Path) -> None:
    good = (rollout / "policies/tls.yaml").read_text("utf-8")
    project.write(rollout, {"policies/tls.yaml": "kind: KAEPolicy\n"})
    revisions.commit(rollout)
    project.write(rollout, {"policies/tls.yaml": good})

    page = changed(rollout)

    assert "error" in " ".join(page.text("p"))
    assert "What does not compile has no effect that could be shown." in page.text("p")
    assert len(nodes_of(page, "east")) == 24


def test_an_unknown_revision_makes_no_page(rollout: Path) -> None:
    assert "nowhere" in refused(3, rollout, "report", "--html", "page.html", "nowhere")
    assert not (rollout / "page.html").exists()


RISKY = ("version: 2.2.0\n    source", "version: 2.1.0\n    repository: mirror.example.com/kae\n    source")


def risks(page: Page) -> list[tuple[str, str]]:
    """The state and the code of each risk, as people read them."""
    states = [item["data-state"] for item in page.named("li") if "data-state" in item]
    words = [text for text in page.text("b") if text in ("error", "warning", "accepted")]
    assert words == states
    return list(zip(states, [text for text in page.text("code") if text in diagnostics.RISKS], strict=True))


def test_the_risks_of_a_change_are_on_the_page_errors_first_and_accepted_ones_last(rollout: Path) -> None:
    diffs.change(rollout, "no waves")
    revisions.commit(rollout)
    diffs.edit(rollout, RISKY)
    project.write(rollout, {"kae.yaml": "findings: {driver-downgrade: error}\n"})

    page = changed(rollout, "--accept", "large-step:east/tls")

    assert risks(page) == [("error", "driver-downgrade"), ("warning", "registry-changed"), ("accepted", "large-step")]
    said = "Driver of policy 'tls' in cluster 'east' comes from mirror.example.com, and did not before."
    assert said in " ".join(page.text("span"))
    assert "It is accepted as large-step:east/tls." in page.text("small")
    texts = [text for _, text in page.texts]
    (first, *_) = (index for index, text in enumerate(texts) if "nodes of policy tls go from" in text)
    assert texts.index("Risks") < first


def test_what_the_project_ignores_of_risks_is_counted(rollout: Path) -> None:
    diffs.edit(rollout, RISKY)
    project.write(rollout, {"kae.yaml": "findings: {driver-downgrade: ignore}\n"})

    assert "Risks ignored as kae.yaml says: 1 driver-downgrade" in changed(rollout).text("p")


@pytest.mark.parametrize("revision", [(), ("HEAD",)])
def test_an_accepted_risk_that_a_change_does_not_have_is_told(revision: tuple[str, ...], rollout: Path) -> None:
    said = "--accept crd-pruned lets nothing pass: the change has no such risk.\n"

    assert warned(rollout, "report", "--html", "page.html", "--accept", "crd-pruned", *revision) == said


def test_the_privileges_that_objects_gain_and_lose_are_folded_by_object(rollout: Path) -> None:
    diffs.edit(rollout, RISKY)

    page = changed(rollout)

    names = "DaemonSet kae-driver-tls"
    assert any(text.startswith(names) and text.endswith(": gains 1 and loses 1") for text in page.text("summary"))
    assert "+ images from mirror.example.com" in page.text("li")
    assert "- images from cr.openfuyao.cn" in page.text("li")


def test_no_word_of_a_risk_or_a_privilege_is_markup() -> None:
    finding = diagnostics.Diagnostic(
        code="large-step", span=diagnostics.Span(file=HOSTILE), message=HOSTILE, notes=(HOSTILE,), hint=HOSTILE
    )
    gained = privileges.Privilege(sort="rights", text=HOSTILE, verb=HOSTILE, name=HOSTILE)
    side = difference.Revision(name=HOSTILE, commit="0" * 40)
    same: dict[str, Any] = {"cluster": HOSTILE, "is_new": False, "is_gone": False}
    same["deletion"] = deletions.Deletion(HOSTILE, prunes=False)
    data = {"kind": HOSTILE, "metadata": dict.fromkeys(("namespace", "name"), HOSTILE)}
    pair = objects.Pair(component="driver", path="", before=data, after=data)
    privilege = difference.PrivilegeChange(pair=pair, gained=(gained,), lost=(gained,))
    risks = tuple(
        acceptance.Acceptable(finding=finding, cluster=name, policy=HOSTILE, parts=(HOSTILE,))
        for name in (HOSTILE, f"{HOSTILE} too")
    )
    cluster = difference.ClusterDifference(
        nodes=1, effects=(), pods=(), objects=(), privileges=(privilege,), risks=risks, **same
    )
    compared = difference.Difference(before=side, after=side, intent=(), clusters=(cluster,))
    others, accepted = risk_groups.split(risks, [f"large-step:{HOSTILE}"])
    change = report_page.Change(compared, tuple(group.told() for group in others), accepted)

    page = Page("".join(report_page.text([], [], package_data.report(), change)))

    assert [len(page.named(tag)) for tag in ("script", "img")] == [2, 0]
    assert [line["data-state"] for line in page.named("li") if "data-state" in line] == ["warning", "accepted"]
    assert any(EVIL[:9] in text for text in page.text("summary"))


def test_a_value_of_a_field_that_differs_is_a_text(rollout: Path) -> None:
    version = "    version: 2.2.0\n"
    diffs.edit(rollout, (f"{version}    source", f"{version}    env: [{{name: X, value: '{EVIL}'}}]\n    source"))

    page = changed(rollout)

    assert EVIL in " ".join(page.text("li"))
    assert [len(page.named(tag)) for tag in ("script", "img")] == [2, 0]


def test_without_a_page_it_prints_a_summary(folder: Path) -> None:
    answer = in_process.kae(folder, "report")

    lines = answer.out.splitlines()
    assert (answer.code, lines[0]) == (0, "6 nodes in 2 clusters, 2 with problems, 1 opted out")
    tables = {line.split()[0]: re.split(r"\s{2,}", line) for line in lines if "  " in line and line[0] != " "}
    assert tables["CLUSTER"][-1] == "WITH PROBLEMS"
    assert (tables["east"][:2], tables["west"][:2]) == (["east", "6"], ["west", "0"])
    assert tables["tls"][-1] == "policies/tls.yaml"
    problems = lines[lines.index("Problems, of which `kae plan --problems` names the nodes:") + 1 :]
    counts = json.loads(in_process.kae(folder, "plan", "--problems", "-o", "json").out)["clusters"]
    assert sum(int(line.split()[0]) for line in problems) >= sum(len(cluster["nodes"]) for cluster in counts) > 0
    assert "warning[node-unknown]" in answer.err


def test_the_summary_is_there_for_programs(folder: Path) -> None:
    told = json.loads(in_process.kae(folder, "report", "-o", "json").out)

    assert (told["version"], told["nodes"]) == (1, 6)
    assert told["states"] == {"problem": 2, "complete": 1, "plugin": 1, "optOut": 1, "none": 1}
    assert [(one["name"], one["nodes"], one["withProblems"]) for one in told["clusters"]] == [
        ("east", 6, 2),
        ("west", 0, 0),
    ]
    assert [(one["recipe"], one["name"], one["nodes"]) for one in told["policies"]] == [
        ("kae", "rest", 2),
        ("kae", "tls", 4),
    ]
    assert sum(problem["nodes"] for problem in told["problems"]) == 2
    assert {finding["code"] for finding in told["diagnostics"]} == {
        "node-opted-out",
        "node-unknown",
        "node-untolerated",
    }
    assert "change" not in told


def test_the_summary_for_programs_has_the_change_as_the_difference_has_it(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    revisions.commit(folder)
    project.write(folder, {"policies/tls.yaml": fleet.POLICY.replace("2.2.0", "2.3.0")})

    told = json.loads(in_process.kae(folder, "report", "HEAD", "-o", "json").out)
    difference = json.loads(in_process.kae(folder, "diff", "-o", "json").out)

    assert told["change"] == {key: difference[key] for key in told["change"]}
    assert told["diagnostics"] == difference["diagnostics"]


def test_the_summary_of_a_change_ends_as_the_difference_says(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    revisions.commit(folder)
    project.write(folder, {"policies/tls.yaml": fleet.POLICY.replace("2.2.0", "2.3.0")})

    summary, difference = in_process.kae(folder, "report", "HEAD"), in_process.kae(folder, "diff")

    assert (summary.code, summary.out.endswith(f"\n\n{difference.out}")) == (0, True)


def test_a_change_of_drivers_has_the_curve_of_its_rollout(rollout: Path) -> None:
    diffs.change(rollout, "source")

    page = changed(rollout)

    (curve,) = page.named("polyline")
    points = [tuple(map(float, point.split(","))) for point in curve["points"].split()]
    assert [points[0], points[-1]] == [(60, 164), (628, 16)]
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))
    assert any(text.startswith("Once this is applied, it takes ") for text in page.text("p"))


def test_a_change_of_no_driver_has_no_curve(rollout: Path) -> None:
    diffs.change(rollout, "plugin version")

    assert changed(rollout).named("polyline") == []
