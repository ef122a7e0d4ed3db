"""The table of parameters as a page: what `python -m arboost parameters` prints."""

from arboost.params.spec import Param
from arboost.params.table import CONFIG_PARAMS, GROUPS, PARAMS
from arboost.runtime.bytesize import ByteSize


def as_markdown() -> str:
    """The whole table as Markdown, one section per group."""
    parts = []
    for group, title in GROUPS.items():
        rows = [p for p in (*PARAMS.values(), *CONFIG_PARAMS.values()) if p.group == group]
        parts.append(f"## {title}\n")
        parts.append("| name | default | values | meaning |\n|---|---|---|---|")
        parts.extend(_markdown_row(param) for param in rows)
        parts.append("")
    return "\n".join(parts)


def _markdown_row(param: Param) -> str:
    name = ", ".join(f"`{name}`" for name in (param.name, *param.aliases))
    default = "" if param.default in (None, (), "", "()") else f"`{_plain(param)}`"
    values = param.bounds.replace("'", "`") if param.choices else f"{_TYPE_WORDS[param.type]} {param.bounds}".strip()
    return f"| {name} | {default} | {values} | {' '.join([param.doc, *_remarks(param)])} |"


_TYPE_WORDS = {
    int: "integer",
    float: "number",
    bool: "true or false",
    str: "text",
    tuple: "number or list",
    list: "name or list",
    object: "",
    ByteSize: "bytes",
}


def _plain(param: Param) -> str:
    if isinstance(param.default, bool):
        return str(param.default).lower()
    return f"{param.default:g}" if isinstance(param.default, float) else str(param.default)


def _remarks(param: Param) -> list[str]:
    """What a reader must know about availability."""
    remarks = []
    if param.used_by:
        remarks.append("Read by " + ", ".join(f"`{name}`" for name in param.used_by) + ".")
    if not param.supported:
        remarks.append("Not available yet.")
    if not param.has_effect:
        remarks.append("Accepted, without effect.")
    return remarks
