"""`ONNXProgram`: a model as ONNX, in memory.

Takes a model without the elements of its weights, and these as tensors. Gives the whole model, files,
and runs.
Keeps true: a file is replaced whole or not at all; weights are copied when they are written and not
before; models above ONNX's limit of 2 GB have their weights in a second file.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.fx import _pytree as pytree
from facula.onnx.errors import OnnxExporterError, onnx_package
from facula.onnx.graph import bytes_of, dtype_of_element, element_type, tensor_proto
from facula.serialization.files import written_atomically

if TYPE_CHECKING:
    from facula.nn import Module


Tensor = core.Tensor
#: what one message may take
LIMIT = 2**31 - 1
#: weights from this size on go to the second file, at multiples of a page
_OUTSIDE, _PAGE = 1024, 4096


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.dtype.itemsize


class ONNXProgram:
    """A model as ONNX."""

    def __init__(self, skeleton: Any, weights: dict[str, Tensor], exported_program: Any) -> None:
        self._skeleton = skeleton
        self._weights = weights
        self.exported_program = exported_program
        self._session: Any = None

    # ---------------------------------------------------------------- the model

    @property
    def model_proto(self) -> Any:
        """The model with its weights, as `onnx.ModelProto`."""
        return self._model(include_initializers=True, keep_initializers_as_inputs=False)

    def _model(
        self, include_initializers: bool, keep_initializers_as_inputs: bool, outside: bool = False
    ) -> Any:
        model = onnx_package().ModelProto()
        model.CopyFrom(self._skeleton)
        for name, tensor in self._weights.items():
            if include_initializers and not (outside and _size(tensor) >= _OUTSIDE):
                model.graph.initializer.append(tensor_proto(tensor, name))
            if keep_initializers_as_inputs:
                info = onnx_package("onnx.helper").make_tensor_value_info(
                    name, element_type(tensor.dtype), [int(n) for n in tensor.shape]
                )
                model.graph.input.append(info)
        return model

    @property
    def size(self) -> int:
        """How many bytes the weights take."""
        return sum(map(_size, self._weights.values()))

    def optimize(self) -> None:
        """Compute what is constant, and nodes that are there twice once; in place."""
        # lazily: the rules import ONNX's own evaluator
        from facula.onnx.optimize import optimize

        optimize(self._skeleton)
        self._session = None

    def apply_weights(self, state_dict: Mapping[str, Tensor]) -> None:
        """Put tensors in the place of the weights with these names.

        A name that the model does not have is said in a warning; another shape or dtype is an error.
        """
        for name, tensor in state_dict.items():
            held = self._weights.get(name)
            if held is None:
                get_logger("export").warning(
                    "the ONNX model has no weight %r: it is left out", name
                )
                continue
            if tuple(held.shape) != tuple(tensor.shape) or held.dtype is not tensor.dtype:
                fail(ValueError, "onnx.apply_weights", f"a tensor of shape {tuple(held.shape)} and "
                     f"dtype {held.dtype} was required for {name}",
                     f"{tuple(tensor.shape)} and {tensor.dtype}",
                     hint="export again for weights of other shapes")  # fmt: skip
            self._weights[name] = tensor.detach()
        self._session = None

    def rename_axes(self, names: Mapping[str, str]) -> None:
        """Give sizes that may change other names."""
        for value in (*self._skeleton.graph.input, *self._skeleton.graph.output):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in names:
                    dim.dim_param = names[dim.dim_param]

    # ---------------------------------------------------------------- files

    def save(
        self,
        destination: str | os.PathLike[str] | Any,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file.

        Args:
            destination: a path, or a file opened for writing bytes.
            include_initializers: whether the weights are written.
            keep_initializers_as_inputs: whether weights are inputs as well, which then may be given.
            external_data: whether weights go to a second file, `<destination>.data`; by default
                where the model is larger than 2 GB.

        Raises:
            TypeError: weights for a second file, and no path beside which it could lie.
        """
        path = os.fspath(destination) if isinstance(destination, (str, os.PathLike)) else None
        outside = external_data if external_data is not None else self.size > LIMIT - 2**20
        outside = bool(outside) and include_initializers
        if outside and path is None:
            fail(TypeError, "onnx.save", "a path was required for weights in a second file",
                 type(destination).__name__, hint="pass external_data=False")  # fmt: skip
        model = self._model(include_initializers, keep_initializers_as_inputs, outside)
        if path is None:
            opened: Any = destination
            opened.write(self._bytes(model))
            return
        with written_atomically(path) as file:
            if outside:
                with written_atomically(f"{path}.data") as data:
                    self._write_outside(model, data, os.path.basename(f"{path}.data"))
                    file.write(self._bytes(model))
            else:
                file.write(self._bytes(model))

    def _bytes(self, model: Module) -> bytes:
        if model.ByteSize() > LIMIT:
            fail(OnnxExporterError, "onnx.save", "a model of at most 2 GB was required for one file",
                 f"{model.ByteSize()} bytes", hint="pass external_data=True and a path")  # fmt: skip
        return model.SerializeToString(deterministic=True)

    def _write_outside(self, model: Module, data: Any, location: str) -> None:
        """Write large weights behind each other, and where they lie into the model."""
        proto = onnx_package().TensorProto
        inside = {t.name: t for t in model.graph.initializer}
        del model.graph.initializer[:]
        for name, tensor in self._weights.items():
            if name in inside:
                model.graph.initializer.append(inside[name])
                continue
            data.write(b"\0" * (-data.tell() % _PAGE))
            made = model.graph.initializer.add()
            made.name, made.data_type = name, element_type(tensor.dtype)
            made.dims.extend(int(n) for n in tensor.shape)
            made.data_location = proto.EXTERNAL
            where = {"location": location, "offset": data.tell(), "length": _size(tensor)}
            for key, value in where.items():
                entry = made.external_data.add()
                entry.key, entry.value = key, str(value)
            data.write(bytes_of(tensor))

    # ---------------------------------------------------------------- runs

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model by onnxruntime, with the arguments that the original takes."""
        if self._session is None:
            self.initialize_inference_session()
        feeds = {name: _runtime_value(tensor) for name, tensor in self._feeds(args, kwargs).items()}
        return tuple(map(_from_runtime, self._session.run_with_ort_values(None, feeds)))

    def initialize_inference_session(self, initializer: Callable[[Any], Any] | None = None) -> None:
        """Make the session that calls use; `initializer` gets the model's bytes, or a file's path."""
        runtime = onnx_package("onnxruntime")

        def session(model: Any) -> Any:
            return runtime.InferenceSession(model, providers=["CPUExecutionProvider"])

        make = session if initializer is None else initializer
        if self.size < LIMIT // 2:
            self._session = make(self._bytes(self.model_proto))
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            self.save(path, external_data=True)
            self._session = make(path)

    def call_reference(self, *args: object, **kwargs: object) -> tuple[Any, ...]:
        """Run the model by ONNX's own evaluator, which is slow and follows the specification."""
        evaluator = onnx_package("onnx.reference").ReferenceEvaluator(self.model_proto)
        return self._referred(evaluator, args, kwargs)

    def compute_values(
        self,
        value_names: Sequence[str],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The values with these names, by ONNX's own evaluator."""
        model = self.model_proto
        del model.graph.output[:]
        for name in value_names:
            model.graph.output.add().name = name
        evaluator = onnx_package("onnx.reference").ReferenceEvaluator(model)
        return dict(zip(value_names, self._referred(evaluator, args, kwargs or {}), strict=True))

    def _referred(
        self, evaluator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        feeds = {name: _as_array(t) for name, t in self._feeds(args, kwargs).items()}
        return tuple(map(_from_array, evaluator.run(None, feeds)))

    def _feeds(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
        expected = list(self.exported_program.in_spec.children_specs[1].context or ())
        ordered = {name: kwargs[name] for name in expected if name in kwargs}
        leaves = pytree.tree_leaves((args, {**ordered, **kwargs}))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        names = [value.name for value in self._skeleton.graph.input]
        if len(tensors) != len(names):
            fail(TypeError, "ONNXProgram", f"tensors for the inputs {names} were required",
                 f"{len(tensors)} tensors", hint="pass what export() was given")  # fmt: skip
        return dict(zip(names, tensors, strict=True))

    def release(self) -> None:
        """Give back what the session holds."""
        self._session = None

    def __repr__(self) -> str:
        shown = onnx_package("onnx.printer").to_text(self._skeleton)
        return f"ONNXProgram(\n    {shown}\n)".replace("\n", "\n    ")


def _as_array(tensor: Tensor) -> Any:
    """A tensor as the array that ONNX has for its dtype."""
    return onnx_package("onnx.numpy_helper").to_array(tensor_proto(tensor))


def _from_array(array: Any) -> Any:
    """A result of ONNX's evaluator as a tensor."""
    made = onnx_package("onnx.numpy_helper").from_array(onnx_package("numpy").asarray(array))
    dtype, shape = dtype_of_element(made.data_type), list(made.dims)
    return _from_bytes(made.raw_data, dtype, shape)


def _from_bytes(data: bytes, dtype: core.dtype, shape: list[int]) -> Any:
    if not data:
        return core.empty(tuple(shape), dtype=dtype)
    return core.frombuffer(bytearray(data), dtype=core.uint8).view(dtype).reshape(shape)


def _runtime_value(tensor: Tensor) -> Any:
    """A tensor as a value of onnxruntime."""
    make = onnx_package("onnxruntime").OrtValue.ortvalue_from_numpy_with_onnx_type
    array = _as_array(tensor)
    numpy = onnx_package("numpy")
    if array.dtype.kind == "V" or array.dtype.name not in numpy.sctypeDict:
        array = array.view(numpy.uint16 if array.dtype.itemsize == 2 else numpy.uint8)
    return make(
        numpy.ascontiguousarray(array).reshape(tuple(tensor.shape)), element_type(tensor.dtype)
    )


def _from_runtime(value: Any) -> Any:
    """A value of onnxruntime as a tensor."""
    dtype = dtype_of_element(value.element_type())
    held = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return _from_bytes(held, dtype, list(value.shape()))
