"""What the page of the Python interface says of a public name, read from the code: its signature, its fields, its methods."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import Any

import shoal


def api_entry(name: str) -> str:
    """A function as its signature; a class as a table of what it has."""
    thing = getattr(shoal, name)
    if inspect.isfunction(thing):
        return f"```python\n{signature(name, thing)}\n```"
    rows = [*_fields(thing), *_methods(thing)]
    if not rows:
        raise ValueError(f"shoal.{name} has nothing to show: describe it in words")
    return "\n".join(
        ["| of it | what it is |", "|---|---|", *(f"| `{_cell(what)}` | {_cell(text)} |" for what, text in rows)]
    )


def signature(name: str, function: Any) -> str:
    """As it is called, on as many lines as it takes."""
    found = inspect.signature(function)
    parameters = [parameter for parameter in found.parameters.values() if parameter.name != "self"]
    parts = [_parameter(parameter) for parameter in parameters]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = found.return_annotation
    after = "" if returns in (inspect.Parameter.empty, "None", None) else f" -> {returns}"
    line = f"{name}({', '.join(parts)}){after}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){after}"


def _parameter(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}".replace("'", '"')
    return f"{parameter.name}: {parameter.annotation}{default}"


def _fields(thing: type) -> list[tuple[str, str]]:
    """Fields of a record, in order, with the string under each."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(definition, ast.ClassDef)
    said = {}
    for field, below in itertools.pairwise([*definition.body, ast.Pass()]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            said[field.target.id] = (ast.unparse(field.annotation), str(text))
    return [(f"{key}: {kind}", text) for key, (kind, text) in said.items() if not key.startswith("_")]


def _methods(thing: type) -> list[tuple[str, str]]:
    """Methods and properties, with the first line of what they say."""
    rows = []
    for key, value in vars(thing).items():
        if key.startswith("_"):
            continue
        if inspect.isfunction(value):
            rows.append((signature(key, value), inspect.getdoc(value) or ""))
        elif isinstance(value, property) or hasattr(value, "func"):
            rows.append((key, inspect.getdoc(value) or ""))
    return rows


def _cell(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).replace("|", chr(92) + "|")
