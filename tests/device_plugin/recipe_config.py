"""A config of a recipe with every field, and the values that tests put into it."""

from typing import Any

INJECT: dict[str, Any] = {
    "nodes": [{"path": "/dev/onload*", "as": "/dev/", "permissions": "rwm", "optional": True}],
    "mounts": [
        {"path": "/opt/onload/usr/lib64/libonload*.so*", "as": "/usr/lib64/", "readOnly": False, "optional": True}
    ],
    "env": {"EF_POLL_USEC": "100000"},
    "preload": ["/usr/lib64/libonload.so"],
    "files": [{"name": "onload-conf", "as": "/etc/onload.conf", "text": "fast = 1\n"}],
}

RECIPE: dict[str, Any] = {
    "version": 1,
    "cluster": "east",
    "policy": "desk",
    "recipe": "onload",
    "kinds": [
        {"name": "sfc", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"], "classes": ["0200"]},
        {"name": "qat", "vendor": "8086", "devices": ["4940"], "classes": []},
    ],
    "resources": [
        {
            "name": "amd.com/onload",
            "class": "token",
            "count": 40,
            "shares": 1,
            "requires": ["/dev/onload"],
            "inject": INJECT,
        },
        {
            "name": "example.com/npu",
            "class": "char",
            "groups": [
                {
                    "paths": [
                        {"path": "/dev/npu[0-9]", "as": "/dev/", "permissions": "r", "limit": 2, "optional": True},
                        {"path": "/dev/npu-control"},
                    ]
                }
            ],
            "shares": 2,
            "requires": [],
            "inject": {},
        },
        {"name": "example.com/vf", "class": "vfio", "kind": "sfc", "requires": [], "inject": {}},
        {"name": "example.com/qat", "class": "uacce", "kind": "qat", "shares": 2, "requires": ["/x"], "inject": {}},
    ],
    "allocationPolicy": "Packed",
    "metrics": {"port": 9510},
}
"""A config with every field that a recipe has."""

VALUES: tuple[Any, ...] = (
    *(1000, 1001, 10000, 10001, "/", "/dev", "/dev/", "/dev/x", "/opt/x", "/opt/../x", "/opt/x/", "/opt//x", "x/y"),
    *("/opt/a:b", "/opt/a b", "/opt/*", "/dev/*", "rr", "mrw", "rwmr", "token", "char", ["/dev/x"], [""], ["x"]),
)
NULLABLE = (
    *(("resources", 0, "inject", part, 0, "as") for part in ("nodes", "mounts")),
    ("resources", 1, "groups", 0, "paths", 0, "as"),
)
REFERENCES = (
    ("kinds",),
    *(position for index in (0, 1) for position in (("kinds", index), ("kinds", index, "name"))),
    *(("resources", index, "kind") for index in (2, 3)),
)
"""Positions of names and of what they name: the decoder looks them up, as no schema can."""
DEFINITIONS = {
    "TokenResource": RECIPE["resources"][0],
    "CharResource": RECIPE["resources"][1],
    "VfioResource": RECIPE["resources"][2],
    "UacceResource": RECIPE["resources"][3],
    "DeviceGroup": RECIPE["resources"][1]["groups"][0],
    "GroupPath": RECIPE["resources"][1]["groups"][0]["paths"][0],
    "ResourceInject": INJECT,
    "InjectedNode": INJECT["nodes"][0],
    "InjectedMount": INJECT["mounts"][0],
    "InjectedFile": INJECT["files"][0],
}
