"""Examples of operators for their docstrings, computed and not written by hand.

Takes the table. Gives for each public operator, where one can be found, the lines of a session: small
tensors as literals, the call, and what it prints.
Keeps true: what stands in an example was run as it stands; calls come from the definition's samples, or,
where it has none, from small tensors of its conventions; results that differ from run to run are not shown.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import warnings
from collections.abc import Iterator
from typing import Any

import facula
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, pointwise_samples

#: elements of all tensors of a call, and lines of a result
MOST_ELEMENTS, MOST_LINES = 60, 14
WIDTH = 88
UNSET = re.compile(r"nan|9223372036854775807")
#: what names for older programs say of themselves: they have examples all the same
OLDER = (
    r".*( is deprecated in favor of |(chain_matmul|range) is deprecated|to pass the indexing argument"
    r"|specifying the dim arg)"
)
SEED = "_ = facula.manual_seed(0)"


def _literal(tensor: Any) -> str:
    """A tensor as an expression, its numbers with one digit behind the point."""
    values = tensor.detach()
    if values.is_floating_point() and values.dtype != facula.float32:
        raise ValueError("a dtype of its own")
    if values.is_complex():
        parts = facula.view_as_real(values).double() * 10
        values = facula.view_as_complex(parts.round() / 10)
    elif values.is_floating_point():
        values = (values.double() * 10).round() / 10
    text = repr(values.tolist())
    return f"facula.tensor({text.replace('-0.0,', '0.0,')})"


def _argument(value: Any, name: str, lines: list[str]) -> str:
    """The text of an argument; tensors get a line and a name before."""
    if isinstance(value, facula.Tensor):
        lines.append(f"{name} = {_literal(value)}")
        return name
    if isinstance(value, (list, tuple)):
        parts = [_argument(v, f"{name}{i}", lines) for i, v in enumerate(value)]
        joined = ", ".join(parts) + ("," if isinstance(value, tuple) and len(parts) == 1 else "")
        return f"[{joined}]" if isinstance(value, list) else f"({joined})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, facula.dtype):
        return str(value)
    raise ValueError(f"no literal for {type(value).__name__}")


def _session(definition: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The statements of a call, the last of which is an expression."""
    lines: list[str] = [SEED] if definition.random else []
    names = [name for name, _ in definition.shown()]
    texts = [_argument(v, n, lines) for v, n in zip(args, names, strict=False)]
    public = definition.names[0]
    head = f"facula.{public}"
    if public.startswith("Tensor."):
        head = f"{texts.pop(0)}.{public.removeprefix('Tensor.')}"
    texts += [f"{name}={_argument(value, name, lines)}" for name, value in kwargs.items()]
    return [*lines, f"{head}({', '.join(texts)})"]


def _printed(lines: list[str], seed: int) -> list[str]:
    """What an interpreter prints for the last line; unset elements are filled with `UNSET`."""
    facula.use_deterministic_algorithms(True)
    facula.manual_seed(seed)  # what draws without saying so differs
    names: dict[str, Any] = {"facula": facula}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=OLDER)
        for line in lines[:-1]:
            exec(line, names)
        return repr(eval(lines[-1], names)).splitlines()


def _folded(line: str) -> list[str]:
    """A statement behind its prompts; a long literal has a line for each of its rows."""
    if len(line) <= WIDTH:
        return [f">>> {line}"]
    indent = " " * (line.index("(") + 2)
    rows = line.replace("], [", f"],\n{indent}[").splitlines()
    return [f"{'...' if i else '>>>'} {row}" for i, row in enumerate(rows)]


def _elements(value: Any) -> int:
    if isinstance(value, facula.Tensor):
        return value.numel()
    parts = value.values() if isinstance(value, dict) else value
    return sum(map(_elements, parts)) if isinstance(parts, (list, tuple)) else 0


_FLOATS = (
    [0.5, -1.0, 2.0],
    [[1.0, 2.0], [3.0, 4.0]],
    [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]],
    [[[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]]],
    [[[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [8.0, 7.0, 6.0, 5.0], [4.0, 3.0, 2.0, 1.0]]]],
    [0.2, 0.7, 0.1],
)
_INTEGERS = ([0, 2, 1], [[0, 1], [1, 0]])


def _guesses(definition: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls of an operator without samples: tensors of equal shape, ones and twos for integers."""
    required = [p for p in definition.schema.parameters if not p.has_default]
    if not required or any(p.keyword_only for p in required):
        return
    tensors = sum(p.is_tensor and not p.is_list for p in required)
    for first in (*_FLOATS, *_INTEGERS):
        seconds = (first, *_INTEGERS, [True, False, True]) if tensors > 1 else (first,)
        for second, number in itertools.product(seconds, (1, 2, 0)):
            yield tuple(_guess(p, i, first, second, number) for i, p in enumerate(required)), {}


def _guess(parameter: Any, place: int, first: Any, second: Any, number: int) -> Any:
    if parameter.is_tensor:
        made = facula.tensor(second if place else first)
        return [made, made * 2] if parameter.is_list else made
    if parameter.is_list:
        return (number, 2)[: parameter.length or 2]
    return {"float": 0.5, "Number": 0.5, "str": "mean"}.get(parameter.type, number)


def _calls(definition: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    S = Samples(facula.float32, 0)
    if definition.kind == "pointwise":
        yield from _guesses(definition)
        yield from pointwise_samples(definition, S)
    elif definition.samples is not None:
        known = definition.samples(S)
        yield from sorted(known, key=lambda call: _elements((*call[0], *call[1].values())))
    else:
        yield from _guesses(definition)


def example(definition: Any) -> list[str]:
    """The lines of an example; none where no small call shows a result that is the same every time."""
    for args, kwargs in _calls(definition):
        if _elements((*args, *kwargs.values())) > MOST_ELEMENTS:
            continue
        # a call that the operator refuses is none to show
        with contextlib.suppress(Exception):
            lines = _session(definition, args, kwargs)
            printed = _printed(lines, 1)
            shows = (
                len(printed) <= MOST_LINES and "" not in printed and not UNSET.search(str(printed))
            )
            if shows and all(printed == _printed(lines, seed) for seed in range(2, 10)):
                return [folded for line in lines for folded in _folded(line)] + printed
    return []


def examples() -> dict[str, list[str]]:
    """The examples of all public operators, by name."""
    found = {
        name: example(operator.definition)
        for name, operator in sorted(own_operators().items())
        if operator.definition.names
    }
    return {name: lines for name, lines in found.items() if lines}
