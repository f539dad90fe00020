"""The public names beside the operators: which there are, and what their docstrings lack.

    python tools/api_reference.py [--missing]

Takes the importable package and `CONTENTS`, the manual's table of contents. Gives each class and
function once, under the first module of the contents that has it, and prints how many are explained.
Keeps true: a name is explained when its docstring tells every argument of its signature and has an
example; operators are left to `tests/packaging/test_operator_documentation.py`.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from facula import core

#: the chapters of the manual, and the modules of each in the order in which they are read
CONTENTS = {
    "Tensors": ["facula"],
    "Networks": [
        "facula.nn",
        "facula.nn.functional",
        "facula.nn.init",
        "facula.nn.parallel",
        "facula.nn.attention",
        "facula.nn.attention.bias",
        "facula.nn.attention.flex_attention",
        "facula.nn.utils",
        "facula.nn.utils.rnn",
        "facula.nn.utils.parametrize",
        "facula.nn.utils.parametrizations",
        "facula.nn.utils.prune",
        "facula.nn.utils.stateless",
    ],
    "Training": [
        "facula.optim",
        "facula.optim.lr_scheduler",
        "facula.optim.swa_utils",
        "facula.utils.data",
        "facula.amp",
        "facula.utils.checkpoint",
    ],
    "Gradients": [
        "facula.autograd",
        "facula.autograd.functional",
        "facula.autograd.forward_ad",
        "facula.autograd.graph",
        "facula.func",
    ],
    "Distributions": ["facula.distributions", "facula.distributions.constraints"],
    "Programs": ["facula.compiler", "facula.export", "facula.jit", "facula.fx", "facula.library"],
    "Processes": ["facula.distributed"],
    "Layouts and checks": ["facula.sparse", "facula.nested", "facula.testing"],
}


class Public(NamedTuple):
    """A class or function, and where the manual has it."""

    module: str
    name: str
    value: Any

    @property
    def full(self) -> str:
        """The name that users write."""
        return f"{self.module}.{self.name}"


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: those it lists, or those that it or its parts define."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(name for name in listed if not name.startswith("_"))
    return [
        name
        for name, value in sorted(vars(module).items())
        if not name.startswith("_")
        and f"{getattr(value, '__module__', '')}.".startswith(f"{module.__name__}.")
    ]


def _is_documented_here(value: Any) -> bool:
    if (
        isinstance(value, ModuleType)
        or not callable(value)
        or isinstance(value, (core.Op, core.Alias))
    ):
        return False
    return not hasattr(value, "definition") and str(
        getattr(value, "__module__", "") or ""
    ).startswith("facula")


def public_names() -> Iterator[Public]:
    """Every class and function of the contents that is no operator, once."""
    seen: set[int] = set()
    deepest_first = sorted(
        (module for modules in CONTENTS.values() for module in modules),
        key=lambda name: name == "facula",
    )
    for module_name in deepest_first:
        module = importlib.import_module(module_name)
        for name in names_of(module):
            value = getattr(module, name)
            if _is_documented_here(value) and id(value) not in seen:
                seen.add(id(value))
                yield Public(module_name, name, value)


def told(text: str) -> set[str]:
    """The arguments that a docstring has an entry for."""
    joined = re.sub(r"\n {8,}", " ", text)
    return set(
        re.findall(r"\w+", " ".join(re.findall(r"^    ([\w, *]+?)(?: \(.*\))?: ", joined, re.M)))
    )


def arguments_of(value: Any) -> list[str]:
    """The arguments that somebody may give; none where the signature is not known, or nobody calls."""
    if inspect.isclass(value) and issubclass(value, (enum.Enum, BaseException)):
        return []
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    collecting = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.kind not in collecting and not p.name.startswith("_")]


def lacks(value: Any) -> list[str]:
    """What a docstring would have to say."""
    text = inspect.getdoc(value) or ""
    known = told(text)
    missing = [name for name in arguments_of(value) if name not in known]
    if ">>> " not in text:
        missing.append("an example")
    return missing


def main() -> None:
    """Prints the share of each module, and with --missing what is lacking."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="name what is lacking")
    options = parser.parse_args()
    counts: dict[str, list[int]] = {}
    for public in public_names():
        found = lacks(public.value)
        counts.setdefault(public.module, []).append(not found)
        if found and options.missing:
            print(f"{public.full}: {', '.join(found)}")
    for module, explained in counts.items():
        print(f"{sum(explained):5d} of {len(explained):4d}  {module}")
    total = [one for explained in counts.values() for one in explained]
    print(f"{sum(total):5d} of {len(total):4d}  {100 * sum(total) / len(total):.1f} %")


if __name__ == "__main__":
    main()
