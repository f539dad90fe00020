"""`export`: a model as ONNX.

Takes a module or an exported program, and example arguments. Gives an `ONNXProgram`.
Keeps true: the model is what it was; what can not be written is an error that names it.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from facula import core, nn
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.export.api import export as export_program
from facula.export.dynamic_shapes import enlarged
from facula.export.exported_program import ExportedProgram
from facula.onnx import axes as axis_names
from facula.onnx.custom import table_of
from facula.onnx.errors import OnnxExporterError, onnx_package
from facula.onnx.model import build
from facula.onnx.program import ONNXProgram
from facula.onnx.translate import check_opset, translate

if TYPE_CHECKING:
    from facula.nn import Module


#: the versions of ONNX's operators that translations are written for, and the usual one
OLDEST, NEWEST, USUAL = 11, 23, 20

_EXPORTING: ContextVar[bool] = ContextVar("facula_onnx_export", default=False)


class TrainingMode(enum.IntEnum):
    """Kept for PyTorch's API: a model is exported in the mode that it is in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Kept for PyTorch's API: operators of ONNX are written, whatever is asked for."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Whether a model is being exported, in this thread."""
    return _EXPORTING.get()


@contextlib.contextmanager
def _exporting() -> Iterator[None]:
    token = _EXPORTING.set(True)
    try:
        yield
    finally:
        _EXPORTING.reset(token)


def export(
    model: nn.Module | ExportedProgram,
    args: tuple[Any, ...] = (),
    f: str | os.PathLike[str] | Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: object = None,
    custom_translation_table: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: object = TrainingMode.EVAL,
    operator_export_type: object = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: object = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Export a model to ONNX.

    Args:
        model: a module, in the mode (`eval()`) that is to be exported, or an exported program.
        args, kwargs: example arguments; tensors become inputs, the rest constants.
        f: a file to write; usually `save` of what is returned is called instead.
        verbose: whether the steps are printed.
        input_names, output_names: names in order, those of nested values too.
        opset_version: the version of ONNX's operators, from 11 to 23; by default 20.
        dynamic_shapes: which sizes may change, as `export.export` takes them; a name may stand for
            a `Dim`.
        dynamic_axes: the same by input and output names: `{"x": {0: "batch"}}`.
        custom_translation_table: operators to functions `f(graph, *arguments)`, which give what
            `graph.op("Name", *values, attribute=..)` gave; functions of ONNX Script do too.
        external_data: whether weights go to a second file beside `f`.
        export_params, keep_initializers_as_inputs: whether weights are written to `f`, and whether
            they are inputs as well.
        optimize: whether constants are computed and equal nodes joined.
        verify: whether the model is checked and its results are compared with onnxruntime's.
        report, profile, dump_exported_program, artifacts_dir: whether what was done, how long it
            took and the exported program are written to this folder.
        dynamo: False for PyTorch's older interface, which returns nothing.
        training, operator_export_type, do_constant_folding, custom_opsets,
        export_modules_as_functions, autograd_inlining: kept for PyTorch's API; only custom_opsets,
            the versions of domains, changes anything.

    Raises:
        OnnxExporterError: an operator, a dtype or a size that ONNX has no form for; it names the
            operator and the line of the model.
        ImportError: the package onnx is not installed.

    >>> program = facula.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},))
    >>> program.save("model.onnx")
    """
    onnx_package()
    opset = USUAL if opset_version is None else opset_version
    check_opset(opset, OLDEST, NEWEST)
    say = print if verbose else get_logger("export").debug
    # lazily: written only where it is asked for
    from facula.onnx.artifacts import Artifacts

    artifacts = Artifacts(artifacts_dir, report, profile, dump_exported_program)
    # the older interface takes keyword arguments as a dictionary behind the others
    args, kwargs = _example(args, kwargs, not (dynamo or isinstance(model, ExportedProgram)))
    of_outputs: dict[str, dict[int, str]] = {}
    dims: dict[str, str] | None = None
    asked = (dynamic_axes, input_names, output_names)
    with _exporting(), artifacts.timed():
        if isinstance(model, ExportedProgram):
            program, dims = model, {}
        else:
            _check_module(model)
            dynamic_shapes, of_outputs = _sizes(model, args, kwargs, dynamic_shapes, asked)
            say("facula.onnx: the model becomes a graph of operators")
            traced = enlarged(model, args, kwargs, dynamic_shapes)
            program = _exported(model, *traced)
        say("facula.onnx: operators become ONNX nodes")
        translated = translate(program, table_of(custom_translation_table), opset, input_names)
        translated.graph.domains.update(custom_opsets or {})
        if dims is None:
            fakes = [fake for _, fake in translated.inputs]
            dims = axis_names.symbol_names(model, args, kwargs, dynamic_shapes, fakes)
        skeleton = build(translated, opset, output_names, dims, of_outputs)
        made = ONNXProgram(skeleton, translated.graph.weights, program)
        if optimize:
            say("facula.onnx: the graph becomes simpler")
            made.optimize()
    artifacts.write(made)
    if verify:
        _verify(made, program, args, kwargs)
    if f is not None:
        made.save(f, include_initializers=export_params, external_data=_outside(f, external_data, dynamo),
                  keep_initializers_as_inputs=keep_initializers_as_inputs)  # fmt: skip
    return made if dynamo else None


def _example(
    args: object, kwargs: Mapping[str, Any] | None, older: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the example call."""
    args, kwargs = args if isinstance(args, tuple) else (args,), dict(kwargs or {})
    if older and args and isinstance(args[-1], dict):
        return args[:-1], {**args[-1], **kwargs}
    return args, kwargs


def _sizes(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: object,
    asked: tuple[Any, ...],
) -> tuple[Any, dict[str, dict[int, str]]]:
    """Which sizes may change, as `export.export` takes them, and what those of outputs are called."""
    if shapes is not None:
        return axis_names.with_dims(shapes, {}), {}
    return axis_names.from_axes(model, args, kwargs, *asked) if asked[0] else (None, {})


def _outside(f: object, external_data: bool, dynamo: bool) -> bool | None:
    """Whether weights go to a second file; None where their size decides."""
    path = isinstance(f, (str, os.PathLike))
    return external_data if path and dynamo else None


def _check_module(model: Module) -> None:
    if not isinstance(model, nn.Module):
        fail(TypeError, "onnx.export", "a module or an exported program was required",
             type(model).__name__, hint="a function is exported as the forward of a module")  # fmt: skip


def _exported(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: object
) -> ExportedProgram:
    recording = core.set_grad_enabled(False)
    try:
        return export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    finally:
        core.set_grad_enabled(recording)


@contextlib.contextmanager
def select_model_mode_for_export(model: Module, mode: object) -> Iterator[None]:
    """A model in `eval()`, or in `train()` for `TrainingMode.TRAINING`, while something is done."""
    before = getattr(model, "training", None)
    if mode in (None, TrainingMode.PRESERVE) or before is None:
        yield
        return
    modes = {name: module.training for name, module in model.named_modules()}
    model.train(mode == TrainingMode.TRAINING)
    try:
        yield
    finally:
        for name, module in model.named_modules():
            module.training = modes[name]


def _verify(
    made: ONNXProgram, program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Check the model, and compare its results with those of the program."""
    # lazily: reads fx's trees for the comparison only
    from facula.fx import _pytree as pytree

    onnx_package("onnx.checker").check_model(made.model_proto, full_check=True)
    if not args and not kwargs and program.example_inputs is not None:
        args, kwargs = program.example_inputs
    expected = [
        x for x in pytree.tree_leaves(program.module()(*args, **kwargs))
        if isinstance(x, core.Tensor)
    ]  # fmt: skip
    for k, (found, wanted) in enumerate(zip(made(*args, **kwargs), expected, strict=False)):
        if found.is_floating_point():
            apart = (found.double() - wanted.double()).abs().max().item() if found.numel() else 0.0
            near = apart <= 1e-3 * max(
                1.0, wanted.double().abs().max().item() if wanted.numel() else 1.0
            )
        else:
            apart, near = "other values", bool((found == wanted).all())
        if not near:
            fail(OnnxExporterError, "onnx.export", f"equal results were required of output {k}",
                 f"a difference of {apart}", hint="report the model: this is a fault of facula")  # fmt: skip
