"""Sample inputs inside of scripted modules, so that tools run a model that they know nothing of.

Takes: a scripted module, and tuples of arguments for its methods. Gives: methods that return these inputs.
Keeps true: what is stored is small: a large tensor is kept by one element that it repeats, by its own few
elements, or by an expression that makes it; any other is refused.
"""

from __future__ import annotations

import copy
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import facula
from facula import Tensor, core
from facula.core.errors import fail
from facula.jit.script_objects import DEFINE, RecursiveScriptModule, ScriptModule
from facula.ops.table.schemas import types as T

__all__ = [
    "InflatableArg", "MAX_RAW_TENSOR_SIZE", "augment_many_model_functions_with_bundled_inputs",
    "augment_model_with_bundled_inputs", "bundle_inputs", "bundle_large_tensor", "bundle_randn",
]  # fmt: skip

#: the most elements that are stored as they are
MAX_RAW_TENSOR_SIZE = 16
#: the names that texts may use
_NAMES = {
    "torch": facula, "Tensor": Tensor, "Any": Any,
    **{name: getattr(typing, name) for name in ("Dict", "List", "Optional", "Tuple", "Union")},
}  # fmt: skip
_STEM = "_bundled_inputs_deflated"
_HELPER = "_inflate_helper"


class InflatableArg(NamedTuple):
    """An argument as it is stored, and how the real one is made of it.

    Args:
        value: what is stored, of the argument's type
        fmt: an expression, in which `{}` stands for what is stored
        fmt_fn: the text of a function `def {}(self, value: Tensor):` that makes it instead

    Example:
        >>> from facula.utils.bundled_inputs import InflatableArg
        >>> InflatableArg(facula.zeros(1), "{} + 1").fmt
        '{} + 1'
    """

    value: Any
    fmt: str = "{}"
    fmt_fn: str = ""


def bundle_randn(*size: int, dtype: core.dtype | None = None) -> InflatableArg:
    """A tensor of normal random numbers, made when it is asked for.

    Args:
        size: its sizes
        dtype: its dtype

    Example:
        >>> from facula.utils.bundled_inputs import bundle_randn
        >>> bundle_randn(1000, 1000).value.shape
        facula.Size([1000, 1000])
    """
    return InflatableArg(facula.zeros(1, dtype=dtype).expand(*size), "torch.randn_like({})")


def bundle_large_tensor(t: Tensor) -> InflatableArg:
    """A tensor that is stored as it is, however large.

    Args:
        t: the tensor

    Example:
        >>> from facula.utils.bundled_inputs import bundle_large_tensor
        >>> bundle_large_tensor(facula.zeros(3)).fmt
        '{}'
    """
    return InflatableArg(t, "{}")


def _checked(model: Any, inputs: Any) -> Any:
    if not isinstance(model, ScriptModule) or not isinstance(model, RecursiveScriptModule):
        fail(TypeError, "bundle_inputs", "a scripted module was required (Only ScriptModule is supported.)",
             type(model).__name__, hint="facula.jit.script(module) makes one")  # fmt: skip
    if not inputs:
        fail(ValueError, "bundle_inputs", "inputs for at least one function were required (Please provide inputs for "
             "at least 1 function)", inputs, hint="a list of tuples of arguments")  # fmt: skip
    return model


def bundle_inputs(
    model: Any,
    inputs: Any,
    info: Any = None,
    *,
    _receive_inflate_expr: list[str] | None = None,
) -> Any:
    """A copy of a model that holds inputs: `get_all_bundled_inputs()` gives them.

    Args:
        model: a scripted module, which stays as it is
        inputs: a list of tuples of arguments for `forward`, or a dictionary of such lists by method
        info: texts about the inputs, of the same form

    Raises:
        TypeError: the model is none, or the inputs are no list of tuples.

    Example:
        >>> from facula.utils.bundled_inputs import bundle_inputs
        >>> model = bundle_inputs(facula.jit.script(facula.nn.ReLU()), [(facula.ones(1),)])
        >>> model.get_num_bundled_inputs(), model.get_all_bundled_inputs()
        (1, [(tensor([1.]),)])
    """
    _checked(model, inputs)
    if not isinstance(inputs, dict):
        inputs = {model.forward: inputs}
        info = {model.forward: info} if info else None
    made = _without_inputs(model, [f"{f.name}" for f in inputs])
    of_copy = {getattr(made, f.name): given for f, given in inputs.items()}
    told = {getattr(made, f.name): texts for f, texts in (info or {}).items()}
    augment_many_model_functions_with_bundled_inputs(made, of_copy, _receive_inflate_expr, told)
    return made


def augment_model_with_bundled_inputs(
    model: Any,
    inputs: Sequence[tuple[Any, ...]] | None = None,
    _receive_inflate_expr: list[str] | None = None,
    info: list[str] | None = None,
    skip_size_check: bool = False,
) -> None:
    """Adds inputs of `forward` to a model.

    Args:
        model: a scripted module
        inputs: tuples of arguments; None where the model has `_generate_bundled_inputs_for_forward`
        info: texts about them
        skip_size_check: whether large tensors are stored, too

    Raises:
        TypeError: the model is none, or the inputs are no list of tuples.
        Exception: the model has inputs already, or one of them is too large.

    Example:
        >>> from facula.utils.bundled_inputs import augment_model_with_bundled_inputs
        >>> model = facula.jit.script(facula.nn.ReLU())
        >>> augment_model_with_bundled_inputs(model, [(facula.zeros(2),)])
        >>> model.get_all_bundled_inputs()
        [(tensor([0., 0.]),)]
    """
    if not isinstance(model, RecursiveScriptModule):
        _checked(model, [()])
    told = {model.forward: info} if info else None
    augment_many_model_functions_with_bundled_inputs(
        model, {model.forward: inputs}, _receive_inflate_expr, told, skip_size_check
    )


def augment_many_model_functions_with_bundled_inputs(
    model: Any,
    inputs: dict[Callable[..., Any], Sequence[tuple[Any, ...]] | None],
    _receive_inflate_expr: list[str] | None = None,
    info: dict[Callable[..., Any], list[str]] | None = None,
    skip_size_check: bool = False,
) -> None:
    """Adds inputs of several methods to a model.

    Args:
        model: a scripted module
        inputs: tuples of arguments for each method; None where the model has `_generate_bundled_inputs_for_<name>`
        info: texts about them
        skip_size_check: whether large tensors are stored, too

    Raises:
        TypeError: the model is none, or the inputs are no lists of tuples.
        Exception: the model has inputs already, or one of them is too large.

    Example:
        >>> from facula.utils import bundled_inputs
        >>> model = facula.jit.script(facula.nn.ReLU())
        >>> bundled_inputs.augment_many_model_functions_with_bundled_inputs(model, {model.forward: [(facula.ones(1),)]})
        >>> model.get_bundled_inputs_functions_and_info()["forward"]["get_inputs_function_name"]
        ['get_all_bundled_inputs_for_forward']
    """
    _checked(model, inputs)
    if hasattr(model, "get_all_bundled_inputs") or hasattr(
        model, "get_bundled_inputs_functions_and_info"
    ):
        fail(Exception, "bundle_inputs", "a model without inputs was required (Models can only be augmented with "
             "bundled inputs once.)", model.original_name, hint="bundle_inputs() makes a copy with others")  # fmt: skip
    names = {}
    for function, listed in inputs.items():
        name = getattr(function, "name", None) or function.__name__
        names[name] = list((info or {}).get(function, ()))
        _add(model, name, function, listed, _receive_inflate_expr, skip_size_check)
    _define(model, _text_of_info(names))
    if "forward" in names:
        _define(model, """
            def get_all_bundled_inputs(self):
                return self.get_all_bundled_inputs_for_forward()

            def get_num_bundled_inputs(self):
                return len(self.get_all_bundled_inputs_for_forward())
        """)  # fmt: skip


def _add(
    model: Any, name: str, function: Any, listed: Any, told: list[str] | None, unchecked: bool
) -> None:
    """The methods that give the inputs of one method."""
    own = f"_generate_bundled_inputs_for_{name}"
    if listed is not None and not isinstance(listed, Sequence) or isinstance(listed, str):
        fail(TypeError, "bundle_inputs", f"a list of tuples was required for {name}", type(listed).__name__,
             hint="one tuple of arguments for each input")  # fmt: skip
    if (listed is None) != (own in model._script_type.methods):
        got = "neither" if listed is None else "both"
        fail(Exception, "bundle_inputs", f"inputs for {name}, or a method {own}, were required: one of them", got,
             hint="None stands for the inputs that the method makes")  # fmt: skip
    if listed is not None:
        kinds = [a.type for a in function.schema.arguments[1:]]
        deflated, rows = [], []
        for i, given in enumerate(listed):
            _check_row(name, given)
            row = [
                _inflate_expr(value, f"deflated[{i}][{j}]", f"{_HELPER}_for_{name}_input_{i}_arg_{j}", unchecked)
                for j, value in enumerate(given)
            ]  # fmt: skip
            for _, _, text in row:
                if text:
                    _define(model, text)
            deflated.append(tuple(value for value, _, _ in row))
            rows.append(f"({', '.join(e for _, e, _ in row)}{',' if row else ''})")
        count = max(map(len, deflated), default=0)
        _store(model, f"{_STEM}_{name}", deflated, T.list_of(T.tuple_of(kinds[:count])))
        text = f"[{', '.join(rows)}]"
        if told is not None:
            told.append(text)
        _define(model, f"""
            def {own}(self):
                deflated = self.{_STEM}_{name}
                return {text}
        """)  # fmt: skip
    _define(
        model,
        f"""
        def get_all_bundled_inputs_for_{name}(self):
            return self.{own}()
    """,
    )


def _check_row(name: str, given: object) -> None:
    """One input is a tuple of arguments."""
    if not isinstance(given, tuple):
        fail(TypeError, "bundle_inputs", f"tuples of arguments were required for {name}", type(given).__name__,
             hint="(x,) is a tuple of one argument")  # fmt: skip


def _inflate_expr(
    arg: Any, ref: str, inflate_helper_fn_name: str, skip_size_check: bool = False
) -> tuple[Any, str, str | None]:
    """What is stored of an argument, the expression that makes the argument, and the text of a function in that."""
    if isinstance(arg, InflatableArg):
        if arg.fmt_fn:
            if arg.fmt not in ("{}", ""):
                required = f"a `fmt` or a `fmt_fn` was required for Bundled input argument at {ref}"
                fail(Exception, "bundle_inputs", required, "both", hint="leave `fmt` out")  # fmt: skip
            text = textwrap.dedent(arg.fmt_fn).format(inflate_helper_fn_name)
            return arg.value, f"self.{inflate_helper_fn_name}({ref})", text
        return arg.value, arg.fmt.format(ref), None
    if isinstance(arg, core.Tensor):
        return _small(arg, ref, skip_size_check)
    return arg, ref, None


def _small(tensor: Tensor, ref: str, unchecked: bool) -> tuple[Any, str, None]:
    """A tensor by few elements, and the expression that makes it of these."""
    item = tensor.element_size()
    if tensor.untyped_storage().nbytes() // item <= MAX_RAW_TENSOR_SIZE or unchecked:
        return tensor, ref, None
    if tensor.is_contiguous() and tensor.numel() <= MAX_RAW_TENSOR_SIZE:
        return tensor.clone(), ref, None
    for layout, said in (
        (facula.contiguous_format, "torch.contiguous_format"),
        (facula.channels_last, "torch.channels_last"),
    ):
        # sizes of one leave a layout open: those are contiguous in the first sense
        if (layout is facula.contiguous_format or tensor.dim() == 4) and tensor.is_contiguous(
            memory_format=layout
        ):
            first = tensor.reshape(-1)[0:1].clone()
            numbers = tensor.dequantize() if tensor.is_quantized else tensor
            if bool((numbers == numbers.reshape(-1)[0]).all()):
                shape = [1] * tensor.dim()
                stored = first.reshape(shape).expand(tensor.size())
                return stored, f"{ref}.contiguous(memory_format={said})", None
    required = f"Bundled input argument at '{ref}' is larger than {MAX_RAW_TENSOR_SIZE} elements"
    return fail(Exception, "bundle_inputs", f"a small tensor, or one of one number, was required: {required}",
                list(tensor.shape),
                hint="bundle_randn(*size), bundle_large_tensor(t), or an InflatableArg")  # fmt: skip


def _text_of_info(names: dict[str, list[str]]) -> str:
    lines = [
        "def get_bundled_inputs_functions_and_info(self):",
        "    none: List[str] = []",  # a bare `[]` is a list of tensors
        "    found: Dict[str, Dict[str, List[str]]] = {}",
    ]
    for name, texts in names.items():
        listed = f"{texts!r}" if texts else "none"
        lines += [
            "    told: Dict[str, List[str]] = {}",
            f"    told['get_inputs_function_name'] = ['get_all_bundled_inputs_for_{name}']",
            f"    told['info'] = {listed}",
            f"    found['{name}'] = told",
        ]
    return "\n".join([*lines, "    return found"])


def _define(model: Any, text: str) -> None:
    """Adds methods of a text, in which the usual names of types, and `torch`, are known."""
    model.__dict__.setdefault("_defined", []).append((textwrap.dedent(text), _NAMES))
    DEFINE[0](model)


def _store(model: Any, name: str, value: Any, kind: T.Type) -> None:
    """An attribute that the module did not have."""
    model._script_type.attributes[name] = kind
    model.__dict__[name] = value


def _get_bundled_inputs_attributes_and_methods(script_module: Any) -> tuple[list[str], list[str]]:
    """The names of methods, and of attributes, that hold the inputs of a model."""
    kind = script_module._script_type
    methods = [n for n in kind.methods if "bundled_inputs" in n or n.startswith(_HELPER)]
    return methods, [n for n in kind.attributes if n.startswith(_STEM)]


def _without_inputs(model: Any, names: list[str]) -> Any:
    """A copy of a model, of a class of its own, without the inputs that it held."""
    methods, attributes = _get_bundled_inputs_attributes_and_methods(model)
    given = [f"_generate_bundled_inputs_for_{name}" for name in names]
    held = [f"{_STEM}_{name}" for name in names]
    own = [m for m, a in zip(given, held, strict=True) if m in methods and a not in attributes]
    made = copy.deepcopy(model)
    old = model._script_type
    kind = T.ClassType(old.name, old.is_module, old.python)
    for slot in T.ClassType.__slots__:
        if slot not in ("name", "is_module", "python"):
            setattr(kind, slot, copy.copy(getattr(old, slot)))
    kind.methods = {n: u for n, u in old.methods.items() if n not in methods or n in own}
    for name in attributes:
        del kind.attributes[name]
        made.__dict__.pop(name, None)
    made.__dict__["_script_type"] = kind
    made.__dict__["_defined"] = []
    return made
