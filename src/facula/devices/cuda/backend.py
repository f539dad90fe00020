"""The device `cuda`: what the core asks of a device, answered by kernels that Triton compiles.

Takes: tensors whose memory is a `Block`. Gives: `Cuda`, with `allocate`, `copy`, `fill`, `run`, and answers to the
questions of `facula.cuda`.
Keeps true: a call's plan is made once for its shapes, strides, dtypes and other arguments, and holds no tensors;
an operator without a kernel runs on the processor visibly (`host`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.codegen.triton.math import Unprintable
from facula.core.errors import fail
from facula.devices.cuda import images, within
from facula.devices.cuda.driver import find
from facula.devices.cuda.host import Host
from facula.devices.cuda.launching import Launcher, Ready
from facula.devices.cuda.machine import Block, CudaDriver, Machine
from facula.devices.cuda.plans import (
    Geometry,
    Number,
    Plan,
    plan_of_call,
    plan_of_copy,
    plan_of_fill,
)
from facula.devices.cuda.products import plan_of_product
from facula.devices.cuda.questions import Answers
from facula.lower.loops.graph import lower_graph
from facula.lower.loops.ir import REGISTER
from facula.lower.loops.program import View, views_in
from facula.lower.loops.values import NotLoops
from facula.namespaces.switches import get_float32_matmul_precision

__all__ = ["Cuda"]

#: numbers that stay in a kernel's text, where they make it simpler
_PLAIN = frozenset([0, 1, -1, 2, -2, 3, 4, 0.5, -0.5])


class Cuda(Answers):
    """CUDA devices.

    Args:
        driver: the loaded driver; None loads it
        compile: gives the code of a kernel
    """

    name = "cuda"

    def __init__(
        self, driver: CudaDriver | None = None, compile: Callable[..., Any] = images.image
    ) -> None:
        self.driver = driver or CudaDriver(find())
        self.machines = [Machine(self.driver, k) for k in range(self.driver.count())]
        self._compile = compile
        self._launchers: dict[int, Launcher] = {}
        self._plans: dict[Any, Plan | str] = {}
        self.host = Host(self.name)
        self.default = 0

    # --- devices
    def machine(self, device: Any = None) -> Machine:
        """The machine behind a device, its index, or the default one."""
        index = getattr(device, "index", device)
        index = core.device(index).index if isinstance(index, str) else index
        index = self.default if index is None else index
        if not 0 <= index < len(self.machines):
            count = len(self.machines)
            required = f"a device below {count} was required (invalid device ordinal)"
            fail(RuntimeError, "cuda", required, f"cuda:{index}", "facula.cuda.device_count()")
        return self.machines[index]

    def launcher(self, machine: Machine) -> Launcher:
        """The kernels of a device."""
        found = self._launchers.get(machine.index)
        if found is None:
            found = self._launchers[machine.index] = Launcher(machine, self._compile)
        return found

    def allocate(self, nbytes: int, device: Any) -> Block:
        """Memory of a device."""
        return self.machine(device).allocate(nbytes)

    # --- copies
    def copy(self, target: Any, source: Any) -> None:
        """Copy elements, with a cast where dtypes differ, between the host and a device or within one."""
        if target.numel() == 0:
            return
        if source.device.type != self.name:
            self._upload(target, source)
        elif target.device.type != self.name:
            self._download(target, source)
        elif target.device != source.device:
            self._upload(target, _host_of(source))
        else:
            self._copy_within(target, source)

    def _upload(self, target: Any, source: Any) -> None:
        shape, machine = tuple(target.shape), self.machine(target.device)
        given = source.detach().to(target.dtype).expand(shape).contiguous()
        if target.is_contiguous():
            machine.upload(_pointer(target), given.data_ptr(), given.nbytes)
            return
        dense = core.empty(shape, dtype=target.dtype, device=target.device)
        machine.upload(_pointer(dense), given.data_ptr(), given.nbytes)
        self._copy_within(target, dense)

    def _download(self, target: Any, source: Any) -> None:
        if not source.is_contiguous():
            dense = core.empty(tuple(source.shape), dtype=source.dtype, device=source.device)
            self._copy_within(dense, source)
            source = dense
        direct = target.dtype is source.dtype and target.is_contiguous()
        direct = direct and tuple(target.shape) == tuple(source.shape)
        into = target if direct else core.empty(tuple(source.shape), dtype=source.dtype)
        self.machine(source.device).download(into.data_ptr(), _pointer(source), source.nbytes)
        if into is not target:
            target.copy_(into)

    def _copy_within(self, target: Any, source: Any) -> None:
        shape, machine = tuple(target.shape), self.machine(target.device)
        block, _ = core.foreign_buffer(target)
        if target.dtype is source.dtype and tuple(source.shape) == shape:
            if target.is_contiguous() and source.is_contiguous():
                machine.move(_pointer(target), _pointer(source), target.nbytes)
                return
        if core.foreign_buffer(source)[0] is block:  # they may overlap
            apart = core.empty(tuple(source.shape), dtype=source.dtype, device=source.device)
            self._copy_within(apart, source)
            source = apart
        if target.dtype.code not in REGISTER or source.dtype.code not in REGISTER:
            whole = _host_of(target)
            whole.copy_(_host_of(source))
            self._through_host(target, whole)
            return
        given = _geometry(target, 0), _geometry(source, 1)
        plan = self._kept(machine, ("copy", given), lambda ready: plan_of_copy(*given, ready))
        self._run(plan, machine, [target, source], [])

    def _through_host(self, target: Any, whole: Any) -> None:
        """Elements of a dtype that no kernel knows, as bytes."""
        if target.is_contiguous():
            self._upload(target, whole)
            return
        required = "a dtype that kernels know was required for a target with gaps"
        fail(NotImplementedError, "copy_", required, target.dtype, "copy into a contiguous tensor")

    def fill(self, tensor: Any, value: Any) -> None:
        """Set every element."""
        machine = self.machine(tensor.device)
        if tensor.numel() == 0:
            return
        if isinstance(value, core.Tensor):
            self.copy(tensor, value.expand(tuple(tensor.shape)))
            return
        if tensor.is_contiguous() and not value and math.copysign(1, abs(value)) > 0:
            if not isinstance(value, float) or math.copysign(1, value) > 0:
                machine.zero(_pointer(tensor), tensor.nbytes)
                return
        if tensor.dtype.code not in REGISTER:
            host = core.empty(tuple(tensor.shape), dtype=tensor.dtype)
            self.copy(tensor, host.fill_(value))
            return
        number, scalars = value, []
        if tensor.dtype.is_floating_point and isinstance(value, (int, float)):
            number, scalars = Number("f64", 0), [float(value)]
        given = _geometry(tensor, 0)
        key = ("fill", given, type(number), number if not scalars else None)
        plan = self._kept(machine, key, lambda ready: plan_of_fill(given, number, ready))
        self._run(plan, machine, [tensor], scalars)

    # --- operators
    def run(self, operator: Any, arguments: tuple[Any, ...]) -> Any:
        """The results of an operator some of whose arguments are on a device."""
        tensors: list[Any] = []
        device = _device_of(arguments, self.name)
        free = _free_numbers(operator, arguments)
        scalars: list[Any] = []
        given = _described(arguments, tensors, device, scalars, free, operator.name)
        machine = self.machine(device)
        plan = self._plan(operator, given, machine, tensors)
        if isinstance(plan, str) and scalars:  # a number that the operator looks at
            tensors, scalars = [], []
            given = _described(arguments, tensors, device, scalars, frozenset(), operator.name)
            plan = self._plan(operator, given, machine, tensors)
        if isinstance(plan, str):
            return self.host.run(operator, arguments, device, plan)
        return self._run(plan, machine, tensors, scalars)

    def _plan(self, operator: Any, given: Any, machine: Machine, tensors: list[Any]) -> Plan | str:
        """The plan of a call, or the reason why there is none."""
        precision = "ieee" if get_float32_matmul_precision() == "highest" else "tf32"
        key = (machine.index, operator, _types(given), precision)
        try:
            found = self._plans.get(key)
        except TypeError:  # an argument that has no hash, as a generator
            return "an argument that no kernel takes"
        if found is None:
            try:
                found = self._made(operator, given, machine, len(tensors), precision)
            except (NotLoops, Unprintable) as reason:
                found = str(reason).partition("\n")[0]
            except Exception:
                if any(isinstance(g, Number) for g in given):
                    return "a number that the operator looks at"
                raise
            self._plans[key] = found
        return found

    def _made(
        self, operator: Any, given: Any, machine: Machine, count: int, precision: str
    ) -> Plan:
        ready = self._ready(machine)
        found = plan_of_product(operator, given, count, ready, precision)
        return plan_of_call(operator, given, count, ready) if found is None else found

    def _ready(self, machine: Machine) -> Callable[[Any], Ready]:
        launcher = self.launcher(machine)
        return lambda kernel: Ready(launcher, kernel)

    def _kept(self, machine: Machine, key: Any, make: Callable[..., Plan]) -> Plan:
        """A plan that always is one."""
        key = (machine.index, *key)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = make(self._ready(machine))
        assert isinstance(found, Plan)
        return found

    def _run(self, plan: Plan, machine: Machine, tensors: list[Any], scalars: list[Any]) -> Any:
        """Launch a plan on tensors."""
        if plan.views is not None:
            found = [
                core.make_view(tensors[number], shape, strides, offset)
                for number, shape, strides, offset in plan.views
            ]
            return tuple(found) if plan.several else found[0]
        device = core.device(self.name, machine.index)
        memory = list(tensors)
        for shape, strides, dtype in plan.made:
            memory.append(core.empty_strided(shape, strides, dtype=dtype, device=device))
        pointers = [_pointer(tensor) for tensor in memory]
        for step in plan.steps:
            if step.call is not None:
                self._call(step.call, plan, memory, pointers)
            for ready, slots in step.kernels:
                numbers = [scalars[value.number] for value, _ in ready.kernel.scalars]
                ready.launch([pointers[k] for k in slots], numbers)
        if plan.outputs is not None:
            return _placed(plan.outputs, plan, memory)
        if plan.several:
            return tuple(memory[k] for k in plan.results)
        return memory[plan.results[0]] if plan.results else None

    def compile_graph(self, module: Any) -> Callable[[Any], Any]:
        """What runs a flat graph whose tensors are on a device: a function of the list of its inputs.

        Raises:
            NotLoops, Unprintable: a step of it can not be printed.
        """
        program = lower_graph(module)
        constants = [tensor for _, tensor in program.constants]
        given = [*program.inputs, *(buffer for buffer, _ in program.constants)]
        tensors = [k for k, buffer in enumerate(given) if buffer is not None]
        plans: dict[int, Plan] = {}

        def run(inputs: Any) -> Any:
            everything = [*inputs, *constants]
            found = [everything[k] for k in tensors]
            machine = self.machine(_device_of(found, self.name))
            plan = plans.get(machine.index)
            if plan is None:
                plan = plans[machine.index] = self._graph_plan(program, given, machine)
            if isinstance(inputs, list):
                inputs.clear()
            return self._run(plan, machine, found, [])

        plans[self.default] = self._graph_plan(program, given, self.machine())
        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _graph_plan(self, program: Any, given: Any, machine: Machine) -> Plan:
        plan = Plan([buffer for buffer in given if buffer is not None], False)
        plan.fill_in(program.steps, self._ready(machine))
        plan.outputs = program.outputs
        for view in views_in(program.outputs):
            plan.place(view.buffer)
        return plan

    def _call(self, call: Any, plan: Plan, memory: list[Any], pointers: list[int]) -> None:
        """A call of an operator between kernels."""
        target = within.replacement(call.target)
        found = target(*_placed(call.args, plan, memory), **_placed(call.kwargs, plan, memory))
        if not call.results:
            return
        for buffer, tensor in zip(call.results, found if call.several else [found], strict=True):
            slot = plan.places[buffer]
            memory[slot], pointers[slot] = tensor, _pointer(tensor)


def _pointer(tensor: Any) -> int:
    """The address of a tensor's first element on its device."""
    block, offset = core.foreign_buffer(tensor)
    return int(block.pointer + offset)


def _host_of(tensor: Any) -> Any:
    return tensor.detach().to("cpu")


def _geometry(tensor: Any, number: int) -> Geometry:
    return Geometry(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype.code, number)


def _placed(structure: Any, plan: Plan, memory: list[Any]) -> Any:
    """Arguments of a call with tensors where views stand."""
    if isinstance(structure, View):
        tensor = memory[plan.places[structure.buffer]]
        if structure.whole:
            return tensor
        start = tensor.storage_offset() + structure.offset
        return tensor.as_strided(structure.shape, structure.strides, start)
    if isinstance(structure, (tuple, list)):
        return type(structure)(_placed(item, plan, memory) for item in structure)
    if isinstance(structure, dict):
        return {key: _placed(item, plan, memory) for key, item in structure.items()}
    return structure


def _device_of(arguments: Any, name: str) -> Any:
    for item in arguments:
        if isinstance(item, core.Tensor) and item.device.type == name:
            return item.device
        if isinstance(item, (tuple, list)):
            found = _device_of(item, name)
            if found is not None:
                return found
    return None


def _free_numbers(operator: Any, arguments: tuple[Any, ...]) -> frozenset[int]:
    """The places of arguments that are told at a launch: numbers of pointwise operators."""
    definition = operator.definition
    if definition.kind != "pointwise":
        return frozenset()
    if not any(isinstance(a, (int, float)) and a not in _PLAIN for a in arguments):
        return frozenset()
    variant, _ = core.pointwise_variant(operator, arguments)
    found = set()
    for k, (parameter, value) in enumerate(
        zip(definition.schema.parameters, arguments, strict=True)
    ):
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value in _PLAIN:
            continue
        if not (parameter.is_tensor or parameter.name in variant.runtime):
            continue
        if isinstance(value, float) or -(2**31) < value < 2**31:
            found.add(k)
    return frozenset(found)


def _described(
    values: Any, tensors: list[Any], device: Any, scalars: list[Any], free: Any, name: str
) -> Any:
    """Arguments as what a plan depends on; tensors and numbers that are told are gathered."""
    found: list[Any] = []
    for k, item in enumerate(values):
        if isinstance(item, core.Tensor):
            found.append(_geometry(_on(device, item, name), len(tensors)))
            tensors.append(_on(device, item, name))
        elif k in free:
            found.append(Number("f64" if isinstance(item, float) else "i64", len(scalars)))
            scalars.append(item)
        elif isinstance(item, (tuple, list)):
            inner = _described(item, tensors, device, scalars, frozenset(), name)
            found.append(tuple(inner))
        else:
            found.append(item)
    return tuple(found)


def _on(device: Any, tensor: Any, name: str) -> Any:
    """A tensor on the device of a call; a number that lies on the processor comes along."""
    if tensor.device == device:
        return tensor
    if tensor.dim() or tensor.device.type != "cpu":
        required = "Expected all tensors to be on the same device"
        got = f"at least two devices, {device} and {tensor.device}"
        fail(RuntimeError, name, required, got, "move one with .to(device)")
    return tensor.detach().to(device)


def _types(given: Any) -> Any:
    """What tells 1, 1.0 and True apart in a key."""
    if isinstance(given, (Geometry, Number)):
        return given
    if isinstance(given, tuple):
        return tuple(_types(item) for item in given)
    return (type(given), repr(given)) if isinstance(given, float) else (type(given), given)
