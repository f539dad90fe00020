"""What hooks of modules take and give.

Takes the type of a module with hooks. Gives nothing; raises where a hook does not fit `forward`.
Keeps true: a hook that is let through is called with what it is annotated with, and gives what `forward`, or the
next hook, takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from facula.core.errors import fail
from facula.ops.table.schemas import types as T

__all__ = ["check_hooks"]


def check_hooks(kind: T.ClassType) -> None:
    """Refuse hooks whose annotations do not fit `forward`."""
    found: Any = kind.methods.get("forward")
    forward = found.compiled() if hasattr(found, "compiled") else found
    if not (kind.pre_hooks or kind.hooks) or not hasattr(forward, "parameters"):
        return
    given = [of for _, of, _ in forward.parameters[1:]]
    for name in kind.pre_hooks:
        unit = _checked_inputs(kind, name, "Pre-hook", 2, given)
        _check_returned(f"Pre-hook '{name}' on {kind.name}", unit, given)
    output = forward.result_type()
    for name in kind.hooks:
        unit = _checked_inputs(kind, name, "Hook", 3, given)
        taken = unit.parameters[2][1]
        if taken != output:
            _refuse(f"Hook '{name}' on {kind.name} has the wrong type for the output argument. Received type: "
                    f"'{taken.annotation_str}'. Expected type: '{output.annotation_str}'", name)  # fmt: skip
        result = unit.result_type()
        output = output if result == T.NONE else result


def _refuse(text: str, name: str) -> NoReturn:
    fail(RuntimeError, "jit.script", f"a hook that fits forward was required ({text})", name,
         hint="def hook(self, input: tuple[Tensor], output: Tensor) -> Tensor; a pre-hook has no output")  # fmt: skip


def _checked_inputs(
    kind: T.ClassType, name: str, word: str, count: int, given: Sequence[T.Type]
) -> Any:
    """The unit of a hook that takes the arguments of `forward` as a tuple."""
    unit = kind.methods[name]
    own, said = unit.parameters, f"{word} '{name}' on {kind.name}"
    if len(own) != count:
        _refuse(
            f"{said} was expected to only have exactly {count} inputs but it had {len(own)} inputs",
            name,
        )
    taken = own[1][1]
    if taken.kind != "Tuple":
        _refuse(f"{said} expected the input argument to be typed as a Tuple but found type: "
                f"'{taken.annotation_str}' instead.", name)  # fmt: skip
    wanted = f"Received type: '{taken.annotation_str}'. Expected type: '{T.tuple_of(list(given)).annotation_str}'"
    if len(taken.inner) != len(given):
        _refuse(
            f"{said} has the wrong number of contained types for the input argument's Tuple. {wanted}",
            name,
        )
    if list(taken.inner) != list(given):
        _refuse(f"{said} has the wrong inner types for the input tuple argument. {wanted}", name)
    return unit


def _check_returned(said: str, unit: Any, given: Sequence[T.Type]) -> None:
    """A pre-hook gives nothing, other arguments, or the one that there is where that is no tuple itself."""
    result, whole = unit.declared_result, T.tuple_of(list(given))
    if result is None:
        _refuse(
            f"{said} is missing a return annotation. Return annotations are required, please add one.",
            unit.name,
        )
    if result in (T.NONE, whole):
        return
    if len(given) == 1 and given[0].kind == "Tuple":
        _refuse(f"{said} returned the wrong type of: '{result.annotation_str}'. When forward has a single tuple input "
                "argument, the return needs to be 'None' or a nested tuple containing forward's input tuple argument "
                f"as in: '{whole.annotation_str}'", unit.name)  # fmt: skip
    if len(given) != 1 or result != given[0]:
        _refuse(f"{said} returned the wrong type of: '{result.annotation_str}'. Expected: 'None' or "
                f"'{whole.annotation_str}'", unit.name)  # fmt: skip
