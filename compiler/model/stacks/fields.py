"""Fields that recipes and their policies share: names, paths, and the places of parameters."""

from typing import Annotated, Any

from pydantic import Field, JsonValue

from compiler import keywords, names
from compiler.model import base


def or_parameter(words: str, kind: str) -> dict[str, JsonValue]:
    """Return the keywords of a field of a recipe that a parameter may fill; `words` are its meaning, `kind` its type.

    The type in Python is that of the filled field: `read.recipe` fills a recipe before it is read.
    """
    form = base.form(words + keywords.OR_PARAMETER)
    return {"type": [kind, "string"], "pattern": f"^{keywords.REFERENCE}$", **form}


def _name(pattern: str, longest: int, words: str) -> Any:
    return Field(pattern=f"^{pattern}$", max_length=longest, json_schema_extra=base.form(words))


RecipeName = Annotated[
    str,
    _name(names.POLICY_PATTERN, names.RECIPE_LENGTH, "a DNS label of at most 20 characters without '--'"),
]
PartName = Annotated[
    str,
    _name(names.POLICY_PATTERN, 20, "a name of at most 20 lower-case letters, digits and single '-'"),
]
"""The name of an image, a kind of devices or a profile."""
ParameterName = Annotated[
    str,
    _name(keywords.PARAMETER, 63, "the name of a parameter, such as maxPods (at most 63 letters, digits and '_')"),
]
PciId = Annotated[str, _name("[0-9a-f]{4}", 4, 'four hexadecimal digits in quotes, such as "19e5"')]
ModuleName = Annotated[
    str,
    # MODULE_NAME_LEN of include/linux/module.h, less the final zero; the kernel writes `_` for `-`.
    _name("[A-Za-z0-9_]+", 55, "the kernel's name of a module, with '_' for '-', such as simple_kmod"),
]
ModuleParameter = Annotated[
    str,
    _name("[A-Za-z0-9_]+", 63, "the name of a module's parameter (at most 63 letters, digits and '_')"),
]

ParameterValue = Annotated[
    bool | int | Annotated[str, Field(pattern=keywords.MODULE_TEXT, max_length=keywords.MODULE_TEXT_LENGTH)],
    Field(
        json_schema_extra=base.form(
            "true or false, a whole number, or one line without quotation marks and backslashes"
        )
    ),
]
"""The value of a module's parameter."""

_STEP = "[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*"
_GLOB_STEP = r"[A-Za-z0-9_*?\[-][A-Za-z0-9._:+,@*?\[\]!-]*"
HostPath = Annotated[str, _name(f"(/{_STEP})+", 200, "an absolute path, such as /opt/onload")]
HostGlob = Annotated[str, _name(f"/{_STEP}(/{_GLOB_STEP})*", 200, "an absolute path or a glob, such as /dev/npu*")]
TargetPath = Annotated[
    str,
    _name(f"(/{_STEP})+/?", 200, "an absolute path, such as /dev/npu0, or of a folder with a final '/', such as /dev/"),
]
LibraryPath = Annotated[
    str,
    # LD_PRELOAD is a list with colons or spaces between its parts (ld.so(8)).
    _name(f"(/{_STEP.replace(':', '')})+", 200, "the absolute path of a library, without ':'"),
]
DeviceGlob = Annotated[
    str, _name(f"/dev(/{_GLOB_STEP})+", 200, "the path of a device node or a glob, such as /dev/npu*")
]
DevicePath = Annotated[str, _name(f"/dev(/{_STEP})+", 200, "the path of a device node, such as /dev/onload")]
OptPath = Annotated[str, _name(f"/opt(/{_STEP})+", 200, "a path below /opt, such as /opt/onload")]
