"""Rules for every command: where it runs, how it ends, and which data it never shows."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import compiler
from compiler.cli import findings
from tests import imagefiles, in_process, project
from tests.cli import fleet
from tests.cli.answers import refused, told

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "compile",
    "merge-findings",
    "diff",
    "simulate",
    "rehearse",
    "plan",
    "report",
    "explain",
    "preflight",
    "bump",
    "wave",
    "promote",
    "freeze",
    "thaw",
    "retire",
    "init",
    "import",
    "inventory",
    "recipe",
    "status",
    "support-bundle",
    "smoke",
    "config",
    "schema",
    "completion",
    "rule",
    "help",
]


def started(*arguments: str, folder: Path, **variables: str) -> "subprocess.Popen[str]":
    """A process of the command line, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "compiler", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps(command: str, tmp_path: Path) -> None:
    answer = in_process.kae(tmp_path, command, "--help")

    assert (answer.code, answer.err) == (0, "")
    assert f"usage: kae {command}" in answer.out
    assert "\nexamples:\n  " in answer.out
    assert in_process.kae(tmp_path, "help", command) == answer
    assert in_process.kae(tmp_path, "-C", ".", command, "--help") == answer


def test_alone_it_shows_the_help(tmp_path: Path) -> None:
    alone, asked = in_process.kae(tmp_path), in_process.kae(tmp_path, "help")

    assert (alone.code, alone.err) == (0, "")
    assert alone == asked == in_process.kae(tmp_path, "--help")


def test_help_names_every_command_and_every_exit_code(tmp_path: Path) -> None:
    answer = in_process.kae(tmp_path, "--help")

    assert answer.code == 0
    assert re.findall(r"^    (\S+)", answer.out, re.MULTILINE) == COMMANDS
    assert [line[2] for line in answer.out.splitlines() if line[:2] == "  " and line[2:3].isdigit()] == list("01234")


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert in_process.kae(tmp_path, "--version").out == f"kae {compiler.__version__}\n"
    assert in_process.kae(tmp_path, "-V").out == f"kae {compiler.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [("unknown",), ("compile", "--unknown"), ("compile", "extra"), ("plan", "--format", "sarif"), ("explain",)],
)
def test_what_cannot_be_said_ends_with_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert refused(2, tmp_path, *arguments).startswith("usage: kae")


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (("complie",), "error: there is no command 'complie'.\nhint: Did you mean 'compile'?\n"),
        (("xyzzy",), "error: there is no command 'xyzzy'.\nhint: `kae help` lists the commands.\n"),
        (("check",), "hint: `kae compile --check` does that.\n"),
        (("validate",), "hint: `kae compile --check` does that.\n"),
        (("lint",), "hint: `kae compile --check` does that.\n"),
        (("template",), "hint: `kae compile` does that.\n"),
        (("build",), "hint: `kae compile` does that.\n"),
        (("version",), "hint: `kae --version` does that.\n"),
        (("get", "nodes"), "hint: `kae plan` does that.\n"),
        (("help", "describe"), "hint: `kae explain` does that.\n"),
        (("apply",), "hint: kae applies nothing: commit output/, and Argo CD or Flux applies it.\n"),
        (("help", "paln"), "error: there is no command 'paln'.\nhint: Did you mean 'plan'?\n"),
        (("inventory", "--clutser=east"), "error: there is no option '--clutser'.\nhint: Did you mean '--cluster'?\n"),
        (("--versoin",), "error: there is no option '--versoin'.\nhint: Did you mean '--version'?\n"),
        (("compile", "--clus", "east"), "error: there is no option '--clus'.\nhint: Did you mean '--cluster'?\n"),
        (("compile", "--xyzzy"), "error: there is no option '--xyzzy'.\n"),
        (("plan", "-o", "jsn"), "'jsn' is not one of text, json, yaml and ndjson.\nhint: Did you mean 'json'?\n"),
        (("inventory", "-o", "east.json"), "'east.json' is no format; write --output-file east.json\n"),
        (("import", "a.yaml", "-opolicies/a"), "'policies/a' is no format; write --output-file policies/a\n"),
        (("inventory", "-o", "jsn"), "'jsn' is not one of json and yaml.\nhint: Did you mean 'json'?\n"),
        (("support-bundle", "-o", "a.gz"), "there is no option '-o'.\nhint: Write --output-file FILE.\n"),
        (("support-bundle", "-oa.gz"), "there is no option '-o'.\nhint: Write --output-file FILE.\n"),
        (("config", "-x", "output"), "there is no option '-x'.\n"),
        (("completion", "bsah"), "shell: 'bsah' is not one of bash, fish and zsh.\nhint: Did you mean 'bash'?\n"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_one(arguments: tuple[str, ...], end: str, tmp_path: Path) -> None:
    assert refused(2, tmp_path, *arguments).endswith(end)


@pytest.mark.parametrize(
    ("arguments", "new"),
    [
        (("compile", "--output", "x"), "--output-dir"),
        (("status", "--output=x"), "--output-dir"),
        (("plan", "--format", "json"), "-o json"),
        (("status", "--format", "json"), "-o json"),
        (("explain", "a", "--format=json"), "-o json"),
        (("preflight", "--kernel", "6.6", "--format", "json"), "-o json"),
        (("bump", "tls", "--version", "1", "--format", "json"), "-o json"),
        (("plan", "--json"), "-o json"),
        (("compile", "--json"), "-o json"),
        (("compile", "--dry-run=client"), "--check"),
    ],
)
def test_an_option_of_an_earlier_release_or_another_tool_names_the_one_of_today(
    arguments: tuple[str, ...], new: str, tmp_path: Path
) -> None:
    said = refused(2, tmp_path, *arguments)

    (hint,) = (line for line in said.splitlines() if line.startswith("hint: "))
    assert new in hint


@pytest.mark.parametrize(
    "arguments", [("-C", "fleet", "plan"), ("plan", "-C", "fleet"), ("-C", "x", "plan", "-C", "fleet")]
)
def test_another_folder_is_named_before_the_command_or_after_it(arguments: tuple[str, ...], tmp_path: Path) -> None:
    fleet.small(tmp_path / "fleet")

    assert "\ncluster east: 1 node, " in told(tmp_path, *arguments)


@pytest.mark.parametrize("command", [("compile",), ("plan",), ("explain", "x"), ("schema",), ("completion", "bash")])
@pytest.mark.parametrize("folder", ["nowhere", "file", ""])
def test_a_folder_that_cannot_be_entered_ends_with_3(command: tuple[str, ...], folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    said = refused(3, tmp_path, "-C", folder, *command)

    assert said.startswith(f"kae: '{folder}' cannot be entered: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("call", "ended"),
    [
        (("--version",), (f"kae {compiler.__version__}\n", "", 0)),
        (("compile", "-C", "nowhere"), ("", "kae: 'nowhere' cannot be entered: No such file or directory.\n", 3)),
    ],
)
def test_the_program_ends_as_its_commands(call: tuple[str, ...], ended: tuple[str, str, int], tmp_path: Path) -> None:
    process = started(*call, folder=tmp_path)

    assert (*process.communicate(timeout=600), process.returncode) == ended


def test_a_reader_that_goes_away_ends_a_command_as_sigpipe_does_and_silently(tmp_path: Path) -> None:
    with started("plan", "-o", "json", folder=fleet.small(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == ""

    assert process.returncode == 141


WITHOUT_LIBYAML = """
import sys
sys.modules["yaml._yaml"] = None
from compiler import cli
for words in sys.argv[1:]:
    print(cli.main(words.split()))
"""


def test_without_libyaml_commands_say_so_and_write_nothing(tmp_path: Path) -> None:
    before = project.tree(fleet.small(tmp_path))

    done = subprocess.run(
        (sys.executable, "-B", "-c", WITHOUT_LIBYAML, "compile", "plan", "bump tls --version 2.3.0"),
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )

    said = (
        "kae: documents cannot be read: PyYAML is installed without libyaml.\n"
        "hint: Install a wheel of it: pip install --force-reinstall --only-binary pyyaml pyyaml.\n"
    )
    assert (done.stdout, done.stderr) == ("3\n3\n3\n", 3 * said)
    assert project.tree(tmp_path) == before


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("explain", "east/kp920-01"),
        ("preflight", "--kernel", "5.10.0-153.12.0.92.oe2203sp2.aarch64"),
        ("recipe", "list"),
        ("recipe", "show", "onload"),
        ("report",),
        ("schema",),
    ],
)
def test_a_quiet_question_is_answered_by_its_exit_code(command: tuple[str, ...], tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)

    loud, quiet = in_process.kae(folder, *command), in_process.kae(folder, *command, "-q")

    assert loud.out
    assert (quiet.code, quiet.out, quiet.err) == (loud.code, "", "")


@pytest.mark.parametrize(
    ("terminal", "variables", "coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": ""}, False),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_of_people_who_want_it(
    terminal: bool, variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)

    assert findings.colour(stream) is coloured


@pytest.mark.parametrize(("option", "coloured"), [("always", True), ("never", False), ("auto", False)])
def test_an_option_for_colour_is_stronger_than_the_environment(
    option: str, coloured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR" if coloured else "FORCE_COLOR", "" if option == "auto" else "1")
    folder = project.write(fleet.small(tmp_path), {"policies/wrong.yaml": "a: 1\n"})

    before = in_process.kae(folder, "--color", option, "compile")
    after = in_process.kae(folder, "compile", "--color", option)

    assert ("\x1b[" in before.err) is coloured
    assert before == after


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("explain", "kp920-01"),
        ("preflight", "--kernel", "5.10.0"),
        ("preflight", "--image", "image:2.2.0"),
        ("smoke", "--cluster", "east"),
        ("report", "--html", "page.html"),
    ],
    ids=" ".join,
)
def test_documents_with_mistakes_are_shown_and_nothing_else_is_answered(
    command: tuple[str, ...], tmp_path: Path, piped: Callable[[str], None]
) -> None:
    piped(json.dumps({"Labels": imagefiles.labels(version="2.2.0")}))
    folder = fleet.small(tmp_path)
    project.write(folder, {"policies/more.yaml": fleet.REST.replace("name: rest", "name: a"), "page.html": "earlier"})

    assert "error[two-defaults]" in refused(1, folder, *command)
    assert (folder / "page.html").read_text() == "earlier"


@pytest.mark.parametrize("shape", ["json", "yaml"])
@pytest.mark.parametrize(
    "arguments",
    [("status", "--kubeconfig", "none"), ("plan", "--cluster", "none"), ("diff", "none"), ("bump", "x", "--version=1")],
)
def test_a_call_that_fails_answers_programs_in_their_format(
    arguments: tuple[str, ...], shape: str, tmp_path: Path
) -> None:
    folder = project.write(fleet.small(tmp_path), {"policies/west.yaml": "", "policies/rest.yaml": fleet.REST})

    text, answer = in_process.kae(folder, *arguments), in_process.kae(folder, *arguments, "-o", shape)

    read = yaml.safe_load(answer.out)
    hint = f"hint: {read['error']['hint']}\n" if read["error"]["hint"] else ""
    assert (answer.code, answer.err) == (text.code, text.err)
    assert text.err.endswith(f"kae: {read['error']['message']}\n{hint}")
    assert (text.out, read["diagnostics"]) == ("", [])


@pytest.mark.parametrize(
    "arguments",
    [
        ("bump", "tls", "--version", "2.3.0"),
        ("import", "values.yaml", "--output-file", "new.yaml"),
        ("inventory", "--cluster", "west", "--output-file", "west.json"),
        ("init", "new"),
        ("recipe", "add", "onload"),
        ("recipe", "new", "npx"),
        ("schema", "--write"),
    ],
)
def test_quiet_may_follow_a_command_that_writes(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.write(fleet.small(tmp_path), {"values.yaml": "driver: {}\n"})
    listed = io.TextIOWrapper(io.BytesIO(fleet.listed().encode()))
    monkeypatch.setattr(sys, "stdin", listed)

    answer = in_process.kae(folder, *arguments, "-q")

    assert (answer.code, answer.out, answer.err) == (0, "", "")
