"""Rules of the API server and of kubelets for pods: a table of mistakes, and what is none."""

from typing import Any

import pytest

from compiler.checks import pods
from tests.compiler.checks import pod_table


@pytest.mark.parametrize(("pod", "place", "words"), (*pod_table.REFUSED, *pod_table.UNMERGED, *pod_table.NOT_RUN))
def test_what_no_api_server_takes_or_no_kubelet_runs_is_told(pod: dict[str, Any], place: str, words: str) -> None:
    (found,) = pods.faults(pod)

    path = place if place.startswith(("volumes", "containers", "pod.")) else f"containers.0.{place}"
    assert ".".join(map(str, found.path)) == path.removeprefix("pod.")
    assert words in found.message


@pytest.mark.parametrize("pod", pod_table.TAKEN)
def test_a_pod_that_the_api_server_takes_has_no_mistake(pod: dict[str, Any]) -> None:
    assert list(pods.faults(pod)) == []


def test_a_misspelt_capability_has_a_way_out() -> None:
    pod = pod_table.security(capabilities={"add": ["SYS_ADMNI", "CAP_NET_RAW"]})

    hints = [fault.hint for fault in pods.faults(pod)]

    assert hints == ["Did you mean 'SYS_ADMIN'? See capabilities(7).", "Did you mean 'NET_RAW'? See capabilities(7)."]
