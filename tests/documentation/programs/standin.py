"""Stand for the programs that the documents call beside kae and git: accept what the real ones do, and nothing else.

It is called by the name of each program, with nothing but the standard library, so that it starts at once.
"""

import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(os.environ["KAE_ROOT"])

_FLAGS: dict[str, tuple[set[str], set[str]]] = {
    "get": ({"--all-namespaces"}, {"-n", "-o", "-l"}),
    "describe": (set(), {"-n", "-l"}),
    "logs": ({"--prefix"}, {"-n", "-l", "-c"}),
    "exec": (set(), {"-n", "-c"}),
    "label": ({"--all"}, {"-l"}),
    "rollout": (set(), {"-n"}),
    "delete": (set(), {"-n", "-l"}),
    "wait": (set(), {"-n", "-l", "--for", "--timeout"}),
    "apply": ({"--server-side"}, {"-f", "-k"}),
    "replace": ({"--force"}, {"-f"}),
    "create": (set(), {"-n", "--from-file", "--from-literal"}),
}
"""The flags of kubectl's commands that take no value, and those that take one."""

_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "kp-01",
        "labels": {"openfuyao.com/kae.present": "true", "openfuyao.com/kae.hpre.present": "true"},
    },
    "status": {
        "nodeInfo": {
            "architecture": "arm64",
            "kernelVersion": "5.10.0-182.0.0.95.oe2203sp3.aarch64",
            "kubeletVersion": "v1.31.0",
            "osImage": "openEuler 22.03 (LTS-SP3)",
        }
    },
}
_KERNEL = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: kae-policy
spec:
  driver:
    version: 2.2.0
"""
_IMPORTS = {
    "module": "module-of-one-kernel",
    "onload": "onload",
    "qatdeviceplugin": "qat-device-plugin",
    "specialresource": "special-resource",
}
"""The folders of tests/cli/imports/ with objects of other operators, by kind."""
_LOG = '{"level": "warning", "message": "an example", "step": "stage"}'


def refuse(reason: str) -> None:
    """End as a program that was called wrongly."""
    sys.exit(f"{' '.join(sys.argv)}: {reason}")


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def require_file(name: str) -> None:
    """Refuse a file that is not there, and a standard input without anything."""
    if not (sys.stdin.read().strip() if name == "-" else Path(name).exists()):
        refuse(f"there is no '{name}'")


def split(words: list[str], command: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the arguments and the flags of a command of kubectl."""
    bare, valued = _FLAGS[command]
    arguments: list[str] = []
    flags: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            arguments.append(word)
        elif word in bare:
            flags.setdefault(word, [])
        elif name in valued:
            flags.setdefault(name, []).append(value if equals else next(rest))
        else:
            refuse(f"there is no flag '{word}'")
    return arguments, flags


def require_object(reference: str) -> None:
    """Refuse an object that no output has; a pod belongs to a DaemonSet or a Deployment."""
    kind, slash, name = reference.rpartition("/")
    kind = {"ds": "daemonset", "": "daemonset"}.get(kind, kind)
    name = name if slash else re.sub("-[a-z0-9]{5}$", "", name)
    granted = kind == "clusterrolebinding" and name.startswith("kae-driver-")  # of a policy that cleans up
    known = [*ROOT.glob(f"output/*/*/{kind}-{name}.yaml"), *Path().glob(f"output/*/*/{kind}-{name}.yaml")]
    if not known and not granted:
        refuse(f"there is no {kind} '{name}'")


def require_objects(references: list[str]) -> None:
    """Refuse objects that no output has; there are no references where a label selects."""
    for reference in references:
        require_object(reference)


def kubectl(command: str, words: list[str]) -> None:
    """Accept what kubectl accepts; nodes and a policy have text."""
    if command not in _FLAGS:
        refuse(f"there is no command '{command}'")
    words, inner = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    arguments, flags = split(words, command)
    for name in (*flags.get("-f", []), *flags.get("--from-file", [])):
        require_file(name)
    for name in flags.get("-k", []):
        require_file(f"{name}/kustomization.yaml")
    if command == "exec":
        require_object(arguments[0])
        if inner[0] not in ("python", "cat"):
            refuse(f"no image has '{inner[0]}'")
    elif command in ("logs", "rollout"):
        require_objects(arguments[-1:])
        say(_LOG)
    elif command == "delete":
        delete([] if "-l" in flags else arguments)
    elif command == "get" and flags.get("-o") == ["json"]:
        say(json.dumps({"apiVersion": "v1", "kind": "List", "items": [_NODE]}))
    elif command == "get" and arguments[0] in ("kaepolicy", *_IMPORTS):
        say(text_of(arguments[0]))


def text_of(kind: str) -> str:
    """Return an object of an operator."""
    if kind == "kaepolicy":
        return _POLICY
    return (ROOT / f"tests/cli/imports/{_IMPORTS[kind]}/source.yaml").read_text(encoding="utf-8")


def delete(arguments: list[str]) -> None:
    """Accept TYPE NAME, and TYPE/NAME of objects that an output has."""
    named = arguments if not arguments or "/" in arguments[0] else ["/".join(arguments)]
    for reference in named:
        if not reference.startswith("crd/"):
            require_object(reference)


def install(words: list[str]) -> None:
    """Accept a wheel that is there, with extras or without."""
    for word in words:
        require_file(re.sub(r"\[.*\]$", "", word))


def venv(folder: Path) -> None:
    """Make what a virtual environment has, with these programs."""
    (folder / "bin").mkdir(parents=True)
    for name in ("pip", "kae"):
        (folder / "bin" / name).symlink_to(Path(os.environ["KAE_PROGRAMS"]) / name)


def main(program: str, words: list[str]) -> None:
    """Do what the program of this name does."""
    match program, words:
        case "kubectl", [command, *rest]:
            kubectl(command, rest)
        case ("pip" | "pipx", ["install", *rest]) | ("uv", ["tool", "install", *rest]):
            install(rest)
        case "python3", ["-m", "venv", folder]:
            venv(Path(folder))
        case "ssh-keyscan", [host]:
            say(f"{host} {Path('identity.pub').read_text(encoding='utf-8')}")
        case "jq", [_]:
            json.load(sys.stdin)
        case "skopeo", ["inspect", image] if image.startswith("docker://"):
            content = {"version": image.rpartition(":")[2], "kernels": _KERNEL, "sources": "build prebuilt"}
            say(json.dumps({"Labels": {f"device.openfuyao.com/driver-{key}": text for key, text in content.items()}}))
        case "python", ["-m", "watcher", *_]:
            pass
        case _:
            refuse("this is no call that the stand-in knows")


main(Path(sys.argv[0]).name, sys.argv[1:])
