"""A cluster with KAE and two recipes, whose nodes meet every fate."""

from typing import Any

from compiler.planning import plan
from tests import builders

KERNEL = "5.14.0-427.el9_4.x86_64"
ONLOAD = builders.recipe(
    match={"pci": [{"kind": "sfc", "vendor": "1924", "classes": ["0200"]}]},
    images=dict(builders.IMAGES)
    | {"modules": {"repository": "r.example.com", "image": "onload-module", "version": "8-${KERNEL_FULL_VERSION}"}},
    driver={
        "image": "installer",
        "version": "modules",
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
        "modules": [{"name": "onload"}],
    },
    devicePlugin={"resources": [{"name": "amd.com/onload", "class": "token", "count": 40}]},
)
NPU = builders.recipe(
    "npu-plugin",
    match={"all": {}},
    devicePlugin={
        "resources": [{"name": "example.com/npu", "class": "char", "groups": [{"paths": [{"path": "/dev/npu*"}]}]}]
    },
)
DESK = builders.device_policy(
    "desk",
    ONLOAD,
    nodeSelector={"matchLabels": {"desk": "trading"}},
    kernelMappings=[{"name": "el9", "regexp": "el9"}],
    rollout={"waves": [{"name": "canary", "nodes": ["t-1"]}]},
)
LAB = builders.device_policy("lab", NPU, nodeSelector={"matchLabels": {"lab": "yes"}})
TLS = builders.selecting("tls", pool="tls")
SFC = {"openfuyao.com/onload.present": "true", "openfuyao.com/onload.sfc.present": "true"}
EL8 = builders.profile(SFC, kernel_version="4.18.0-553.el8_10.x86_64")
EL9 = builders.profile(SFC, kernel_version=KERNEL)
NODES = [
    builders.node("kp-1", {"pool": "tls"}),
    builders.node("t-1", {"desk": "trading"}, EL9),
    builders.node("t-2", {"desk": "trading", "lab": "yes"}, EL9),
    builders.node("t-3", {"desk": "trading"}, EL8),
    builders.node("t-4", {}, EL9),
]


def view(*policies: Any) -> plan.Plan:
    return builders.view(policies or (TLS, DESK, LAB), NODES)[0]
