"""`make demo`: the cluster, the engine and the git host of the story, to play with until Ctrl-C; nothing is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from tests.cluster.local import instances, machine, ownership, programs, waiting
from tests.cluster.loop import record, repositories, steps
from tests.cluster.loop.hardware import NEW
from tests.cluster.loop.story import BUDGET, CLUSTER, POLICY, WAVE, Story, opened
from tests.cluster.nodes.driver_node import NAMESPACE
from tests.watcher import servers

_LAST = "The cluster is as planned"
"""The step at which the story stops, and whoever watches goes on."""

_PAUSE_S = 1
"""Between two looks whether somebody has pushed."""

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_TEXT = """\

In another shell, as root:

  export KUBECONFIG={kubeconfig}
  export PATH={path}:$PATH
  cd {fleet}

The fleet as a page, made anew after each push: {page}

Five things to try; a push to main is compiled and applied as the project's jobs do it:

  1. What is there, and is it as planned?
       kubectl get pods --all-namespaces
       kae status --cluster {cluster}
  2. Another driver for the canary:
       git pull && kae bump {policy} --wave {wave} --version {new} && kae compile
       git commit --all --message 'Try {new}' && git push
       kubectl logs --namespace {namespace} --selector app.kubernetes.io/name=kae-driver --follow
     The installer waits for the budget {budget}; let it go on:
       kubectl delete poddisruptionbudget {budget}
  3. Back again:
       git pull && git revert --no-edit "$(git log --format=%H --max-count=1 --grep=^Try)" && git push
  4. Take something away that is in git, and watch the engine bring it back:
       kubectl delete daemonset --namespace {namespace} kae-device-plugin-{policy}
       kubectl get daemonset --namespace {namespace} --watch
  5. Try a device:
       kae smoke --cluster {cluster} | kubectl replace --force -f -
       kubectl wait --namespace {namespace} --for=condition=complete job --selector {smoke}
       kubectl logs --namespace {namespace} --selector {smoke}

Ctrl-C ends it all.
"""


def main() -> int:
    """Open the world, and serve it until Ctrl-C; return 1 where this machine lacks something."""
    lacking = list(_obstacles())
    for sentence in lacking:
        sys.stderr.write(f"{sentence}\n")
    if lacking:
        return 1
    for number in _ENDS:
        signal.signal(number, _end)
    instance = instances.configured()
    sys.stdout.write("Starting the cluster; this takes a minute.\n")
    sys.stdout.flush()
    try:
        with ownership.of(instance):
            # In the state, which is cleared up even after a SIGKILL.
            folder = instance.state / "demo"
            folder.mkdir()
            with opened(instance, os.environ.get("KAE_LOOP_ENGINE") or "argocd", folder) as story:
                _play(story, folder / "page")
    except KeyboardInterrupt:
        sys.stdout.write("Nothing is left of it.\n")
        return 0
    except waiting.TimedOut as fault:
        sys.stderr.write(f"{fault}\n")
    return 1


def _obstacles() -> Iterator[str]:
    yield from programs.obstacles()
    yield from programs.lacking(programs.ENGINES)
    if machine.own_devices():
        yield machine.OWN_DEVICES


def _end(_number: int, _frame: FrameType | None) -> None:
    """Begin the end; a second signal does not keep it from clearing up."""
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    os.write(sys.stdout.fileno(), b"\nEnding the cluster.\n")
    raise KeyboardInterrupt


def _play(story: Story, pages: Path) -> None:
    titles = [step.title for step in steps.STEPS]
    record.of(story, steps.STEPS[: titles.index(_LAST) + 1])
    for key, value in (("user.name", "you"), ("user.email", "you@example.com")):
        story.fleet.ask("git", "config", key, value)
    pages.mkdir()
    story.fleet.report(pages / "fleet.html")
    with servers.files(pages, story.plane.instance.address) as url:
        where = {"kubeconfig": story.plane.kubeconfig, "fleet": story.fleet.folder, "page": f"{url}/fleet.html"}
        path = f"{Path(sys.executable).parent}:{Path(programs.path('kubectl')).parent}"
        names = {"cluster": CLUSTER, "policy": POLICY, "wave": WAVE, "budget": BUDGET, "new": NEW}
        names |= {"namespace": NAMESPACE, "smoke": "app.kubernetes.io/name=kae-smoke"}
        sys.stdout.write(_TEXT.format(path=path, **where, **names))
        sys.stdout.flush()
        _serve(story, pages / "fleet.html")


def _serve(story: Story, page: Path) -> None:
    """Run the job of main for each push, and tell the engine, until Ctrl-C."""
    seen = story.fleet.head(), story.fleet.inventory.branches()
    while True:
        time.sleep(_PAUSE_S)
        gone = [program for program in story.programs if program.ended() is not None]
        if gone:
            raise waiting.TimedOut(f"{gone[0].name} has ended: {gone[0].log_tail()}")
        now = story.fleet.head(), story.fleet.inventory.branches()
        if now == seen:
            continue
        try:
            sys.stdout.write(story.fleet.compile_main())
            story.notice()
            story.fleet.report(page)
        except (repositories.Failed, AssertionError, OSError, subprocess.SubprocessError) as fault:
            sys.stdout.write(f"{fault}\n")
        sys.stdout.flush()
        # What was pushed meanwhile is another change; so is the commit of the job, of which the next one makes nothing.
        seen = now


if __name__ == "__main__":
    sys.exit(main())
