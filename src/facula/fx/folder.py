"""Graph modules as Python packages on disk.

Takes a graph module and a folder.  Gives `module.py` (a class with the same `forward`), `__init__.py`
and files with parameters, buffers and submodules.
Keeps true: the class loads what was written; no code is run from the state files; every name stands
in the text as an identifier or as a quoted literal, and no name leads to a file outside the folder;
each file is replaced whole or not at all.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from facula import core, nn
from facula.fx import names
from facula.serialization import save
from facula.serialization.files import written_atomically

if TYPE_CHECKING:
    from facula.fx.graph_module import GraphModule

_PLAIN = re.compile(r"\w{1,100}", re.ASCII)
_HEAD = """{imports}
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
{members}
        state = {prefix}.load(Path(__file__).with_name("state_dict.pt"), weights_only=True)
        self.load_state_dict(state)
"""


def write(module: GraphModule, folder: str | os.PathLike[str], name: str) -> None:
    """Write a graph module into a folder as the package `name`'s class."""
    names.checked_name(name, "to_folder", "the name of the class")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    state = nn.Module.state_dict(module)  # a child may have that name
    save(state, path / "state_dict.pt")
    members = [*_modules(module, path), *_tensors(module)]
    code = module.graph.python_code("self")
    imports = _imports(code.globals, module)
    body = "\n".join("    " + line if line.strip() else "" for line in code.src.strip().split("\n"))
    text = _HEAD.format(
        imports=imports,
        name=name,
        prefix=names.prefix(),
        members="\n".join(f"        {line}" for line in members),
    )
    _write_text(path / "module.py", f"{text}\n{body}\n")
    _write_text(path / "__init__.py", "from .module import *\n")


def _write_text(path: Path, text: str) -> None:
    with written_atomically(path) as stream:
        stream.write(text.encode())


def _imports(values: dict[str, Any], module: GraphModule) -> str:
    own = names.prefix()
    lines = ["from pathlib import Path", "", f"import {own}", f"from {own} import nn"]
    builtins = names.custom_builtins()
    for name, value in values.items():
        if name in builtins:
            lines.append(builtins[name].import_str)
        elif isinstance(value, type(os)):
            lines.append(f"import {name}")
        elif hasattr(value, "__module__") and hasattr(value, "__qualname__"):
            where = names.checked_name(value.__module__, "to_folder", "a module", names.is_path)
            what = names.checked_name(value.__qualname__, "to_folder", f"the name of {value}")
            lines.append(f"from {where} import {what} as {name}")
    return "\n".join(dict.fromkeys(lines)) + "\n\n"


def _modules(module: GraphModule, path: Path) -> list[str]:
    """Statements that bring back the children, which are saved whole beside the code."""
    lines = []
    for number, (name, child) in enumerate(module.named_children()):
        # a name that is more than a plain word may lead elsewhere, or to the state's file
        plain = _PLAIN.fullmatch(name) and name != "state_dict"
        file = f"{name if plain else f'child-{number}'}.pt"
        save(child, path / file)
        where = f"Path(__file__).with_name({file!r})"
        lines.append(
            f"self.add_module({name!r}, {names.prefix()}.load({where}, weights_only=False))"
        )
    return lines


def _tensors(module: GraphModule) -> list[str]:
    lines = []
    for name, parameter in module._parameters.items():
        if parameter is not None:
            made = f"nn.Parameter({_empty(parameter)}, requires_grad={parameter.requires_grad})"
            lines.append(f"self.register_parameter({name!r}, {made})")
    for name, buffer in module._buffers.items():
        if buffer is not None:
            kept = name not in module._non_persistent_buffers_set
            lines.append(f"self.register_buffer({name!r}, {_empty(buffer)}, persistent={kept})")
    return lines


def _empty(t: core.Tensor) -> str:
    return f"{names.prefix()}.empty({list(t.shape)}, dtype={t.dtype})"
