"""`make demo`: the cluster, the engine and the git host of the story, to play with until Ctrl-C; nothing is left."""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.local import instances, ownership, programs
from tests.cluster.loop import record, repositories, steps, world
from tests.cluster.loop.hardware import NEW
from tests.cluster.loop.story import BUDGET, CLUSTER, POLICY, WAVE, Story

_LAST = "The cluster is as planned"
"""The step at which the story stops, and whoever watches goes on."""

_PAUSE_S = 1
"""Between two looks whether somebody has pushed."""

_TEXT = """\

In another shell, as root:

  export KUBECONFIG={kubeconfig}
  export PATH={path}:$PATH
  cd {fleet}

The fleet as a page: {page}

Five things to try; a push to main is compiled and applied as the project's jobs do it:

  1. What is there, and is it as planned?
       kubectl get pods --all-namespaces
       kae status --cluster {cluster}
  2. Another driver for the canary:
       git pull && kae bump {policy} --wave {wave} --version {new} && kae compile
       git commit --all --message 'Try {new}' && git push
       kubectl logs --namespace kae-operator --selector app.kubernetes.io/name=kae-driver --follow
     The installer waits for the budget {budget}; let it go on:
       kubectl delete poddisruptionbudget {budget}
  3. Back again:
       git pull && git revert --no-edit "$(git log --format=%H --max-count=1 --grep=^Try)" && git push
  4. Take something away that is in git, and watch the engine bring it back:
       kubectl delete daemonset --namespace kae-operator kae-device-plugin-{policy}
       kubectl get daemonset --namespace kae-operator --watch
  5. Try a device:
       kae smoke --cluster {cluster} | kubectl apply -f -
       kubectl logs --namespace kae-operator --selector app.kubernetes.io/name=kae-smoke

Ctrl-C ends it all.
"""


def main() -> int:
    """Open the world, and serve it until Ctrl-C; return 1 where this machine lacks something."""
    obstacles = [*programs.obstacles(), *programs.lacking(programs.ENGINES)]
    for sentence in obstacles:
        sys.stderr.write(f"{sentence}\n")
    if obstacles:
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    instance = instances.configured()
    with tempfile.TemporaryDirectory(prefix="kae-demo-") as folder, ownership.of(instance):
        sys.stdout.write("Starting the cluster; this takes a minute.\n")
        try:
            with world.opened(instance, os.environ.get("KAE_LOOP_ENGINE") or "argocd", Path(folder)) as story:
                _play(story)
        except KeyboardInterrupt:
            sys.stdout.write("\nEnding the cluster.\n")
    return 0


def _play(story: Story) -> None:
    titles = [step.title for step in steps.STEPS]
    record.of(story, steps.STEPS[: titles.index(_LAST) + 1])
    for key, value in (("user.name", "you"), ("user.email", "you@example.com")):
        story.fleet.ask("git", "config", key, value)
    page = story.fleet.folder.with_name("fleet.html")
    story.fleet.ask("kae", "report", "--html", str(page))
    where = {"kubeconfig": story.plane.kubeconfig, "fleet": story.fleet.folder, "page": page.as_uri()}
    path = f"{Path(sys.executable).parent}:{Path(programs.path('kubectl')).parent}"
    names = {"cluster": CLUSTER, "policy": POLICY, "wave": WAVE, "budget": BUDGET, "new": NEW}
    sys.stdout.write(_TEXT.format(path=path, **where, **names))
    sys.stdout.flush()
    _serve(story)


def _serve(story: Story) -> None:
    """Run the job of main for each push, and tell the engine, until Ctrl-C."""
    seen = story.fleet.head(), story.fleet.inventory.branches()
    while True:
        time.sleep(_PAUSE_S)
        now = story.fleet.head(), story.fleet.inventory.branches()
        if now != seen:
            try:
                sys.stdout.write(story.fleet.compile_main())
            except repositories.Failed as failed:
                sys.stdout.write(f"{failed}\n")
            sys.stdout.flush()
            story.notice()
            seen = story.fleet.head(), now[1]


if __name__ == "__main__":
    sys.exit(main())
