"""Optimizers whose step works on each element by itself.

Takes parameters with gradients.  Gives one kernel launch for all tensors of a group that are in
memory as the kernel wants them, and a formula over operators for the others.
Keeps true: both ways compute the same; the formula is functional, so that a differentiable step can
be differentiated, also through several steps; the kernel's writes count as in-place changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.optim.optimizer import Optimizer, run_closure

_CODES = {
    core.float32: "f32",
    core.float64: "f64",
    core.bfloat16: "bf16",
    core.float16: "f16",
}
_SCALAR_STATES = frozenset(("step", "mu_product", "eta", "mu"))
_kernels: dict[tuple[str, Any], Any] = {}


def find_kernel(name: str, dtype: core.dtype) -> Any:
    """The step kernel of this name for a dtype, None where there is none."""
    key = (name, dtype)
    try:
        return _kernels[key]
    except KeyError:
        full = f"step.{name}:{_CODES[dtype]}" if dtype in _CODES else None
        kernel = core.kernel(full) if full is not None and core.has_kernel(full) else None
        _kernels[key] = kernel
        return kernel


def _has_elements(t: Any) -> bool:
    """Whether a kernel may read the tensor: neither a sparse one nor the shell of others."""
    return not t.is_sparse and getattr(type(t), "__torch_dispatch__", None) is None


def in_memory(row: tuple) -> tuple:
    """The tensors themselves; those of which they show a part, where a class says that all show the same one
    (`pieces_alike`, as distributed tensors have it)."""
    alike = getattr(type(row[0]), "pieces_alike", None)
    found = None if alike is None else alike(row)
    return row if found is None else found


def fits(tensors: Sequence[Any]) -> bool:
    """Whether tensors of one element order lie alike in memory, without gaps."""
    first = tensors[0]
    strides = None
    for t in tensors:
        if t.dtype is not first.dtype or t.device.type != "cpu" or not _has_elements(t):
            return False
        if not t.is_contiguous():
            strides = first.stride() if strides is None else strides
    if strides is None:
        return True
    if any(t.stride() != strides for t in tensors):
        return False
    order = sorted(zip(strides, first.shape, strict=True))
    expected = 1
    for stride, size in order:
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def launch(kernel: core.Kernel, rows: Sequence[tuple], parameters: Sequence[float]) -> None:
    """Run a step kernel over rows of (parameter, gradient, states ..., scalars ...)."""
    pointers: list[Any] = []
    for row in rows:
        pointers += row
    sizes = [row[0].numel() for row in rows]
    launch_flat(kernel, pointers, len(rows[0]), sizes, parameters)
    core.increment_version([row[0] for row in rows])


def launch_flat(
    kernel: core.Kernel, pointers: list, width: int, sizes: list[int], parameters: Sequence[float]
) -> None:
    """Run a step kernel over ``pointers``, ``width`` of them a tensor, in as few launches as it
    takes.
    """
    count = len(sizes)
    most = min(core.KERNEL_POINTERS // width, core.KERNEL_INTS - 1)
    if count <= most:
        kernel(pointers, [count, *sizes], parameters)
        return
    for start in range(0, count, most):
        part = sizes[start : start + most]
        kernel(pointers[start * width : (start + most) * width], [len(part), *part], parameters)


class _Plan:
    """What is known of a group's tensors from the step before, so that only gradients need a close
    look.
    """

    __slots__ = ("dtype", "entries", "names", "params", "size", "states")

    def __init__(self, params: list, states: Any, names: tuple[str, ...]) -> None:
        self.params = params
        self.size = len(params)
        self.states = states
        self.names = names
        self.dtype = params[0].dtype if params else None
        #: for each parameter None, or (its state, the state's values then, its pointers, its number
        #: of elements)
        self.entries: list[Any] = [None] * len(params)

    def holds(self, params: list, states: Any, names: tuple[str, ...]) -> bool:
        return (
            self.params is params
            and self.size == len(params)
            and self.states is states
            and self.names == names
        )


class Gathered:
    """A group's tensors, ready for a launch, and the parameters that a launch cannot take."""

    __slots__ = ("changed", "dtype", "other", "pointers", "shells", "sizes", "width", "written")

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype = dtype
        self.width = width
        self.pointers: list[Any] = []
        self.sizes: list[int] = []
        self.changed: list[Any] = []
        #: what the kernel writes for each of these: the parameter, or the piece behind it, and the
        #: parameters of the latter kind
        self.written: list[Any] = []
        self.shells: list[Any] = []
        self.other: list[tuple] = []

    def rows(self) -> list[tuple]:
        """The pointers of each tensor."""
        width = self.width
        return [tuple(self.pointers[i : i + width]) for i in range(0, len(self.pointers), width)]


def _still(entry: tuple, states: Any, p: core.Tensor) -> bool:
    """Whether a parameter's state holds the same tensors as when ``entry`` was made."""
    state, values = entry[0], entry[1]
    return (
        states.get(p) is state
        and len(state) == len(values)
        and all(map(operator.is_, state.values(), values))
    )


class ElementwiseOptimizer(Optimizer):
    """A subclass gives the names of its kernel, its states and its formula."""

    #: state tensors of the parameter's shape, and zero-dimensional ones, in the kernel's order
    _states: tuple[str, ...] = ()
    _scalars: tuple[str, ...] = ("step",)
    #: settings that groups of older checkpoints lack
    _late_defaults: dict[str, Any] = {}
    #: whether the step count of a differentiable step stays a tensor, as in PyTorch's Adam
    _live_step = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._late_defaults.items():
                group.setdefault(name, value)
        for entry in self.state.values():
            for name in self._scalars:
                # older checkpoints hold numbers
                if name in entry and not isinstance(entry[name], core.Tensor):
                    entry[name] = facula.tensor(float(entry[name]), dtype=core.float32)

    def _kernel_name(self, group: dict) -> str:
        raise NotImplementedError

    def _parameters(self, group: dict) -> tuple[float, ...]:
        """The kernel's numbers."""
        raise NotImplementedError

    def _state_names(self, group: dict) -> tuple[str, ...]:
        return self._states

    def _init_state(self, group: dict, parameter: core.Tensor, state: dict) -> None:
        """Make the state of a parameter."""
        state["step"] = scalar_state(0.0, group, parameter)
        for name in self._state_names(group):
            state[name] = zeros_like(parameter)

    def _formula(
        self, group: dict, p: core.Tensor, g: core.Tensor, state: dict, step: Any
    ) -> tuple[Any, dict]:
        """The new parameter and the new states, computed by operators; ``step`` has been counted
        already.
        """
        raise NotImplementedError

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Any, value: object, param_id: int, param_groups: list[dict], key: Hashable = None
    ) -> Any:
        """As for all optimizers; the zero-dimensional states keep their dtype, which the kernels
        expect.
        """
        if key in _SCALAR_STATES:
            key = "step"
        return Optimizer._process_value_according_to_param_policy(
            param, value, param_id, param_groups, key
        )

    def _check_gradient(self, group: dict, grad: core.Tensor) -> None:
        if grad.is_sparse:
            fail(
                RuntimeError,
                type(self).__name__,
                f"{type(self).__name__} does not support sparse gradients",
                hint="make the embedding with sparse=False, or take SparseAdam, SGD or Adagrad",
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; gives the closure's loss, where there is a closure."""
        loss = None if closure is None else run_closure(closure)
        recording = core.set_grad_enabled(False)
        try:
            for group in self.param_groups:
                if group["differentiable"]:
                    core.set_grad_enabled(recording)
                    self._step_group_by_formula(group)
                    core.set_grad_enabled(False)
                else:
                    self._step_group(group)
        finally:
            core.set_grad_enabled(recording)
        return loss

    def _step_group(self, group: dict) -> None:
        gathered = self._gather(group, self._state_names(group) + self._scalars)
        if gathered.sizes:
            self._run(group, self._kernel_name(group), gathered)
        for p, g, state in gathered.other:
            self._step_one(group, p, g, state)

    def _run(self, group: dict, name: str, gathered: Gathered) -> None:
        """Launch, or (without a kernel) go through the parameters one by one."""
        kernel = find_kernel(name, gathered.dtype)
        if kernel is None:
            gathered.other += [(p, p.grad, self.state.get(p, {})) for p in gathered.changed]
            return
        if group.get("foreach") is False and not group.get("fused"):  # as asked: one by one
            for row in gathered.rows():
                launch(kernel, [row], self._parameters(group))
        else:
            launch_flat(
                kernel, gathered.pointers, gathered.width, gathered.sizes, self._parameters(group)
            )
            core.increment_version(gathered.written)
        core.increment_version(gathered.shells)

    def _plan_of(self, group: dict, names: tuple[str, ...]) -> _Plan:
        plans = self.__dict__.setdefault("_plans", {})
        plan = plans.get(id(group))
        if plan is None or not plan.holds(group["params"], self.state, names):
            plan = plans[id(group)] = _Plan(group["params"], self.state, names)
        return plan

    def _gather(self, group: dict, names: tuple[str, ...]) -> Gathered:
        """Every parameter that has a gradient, with its state; states are made where there are
        none.
        """
        plan = self._plan_of(group, names)
        states, entries, dtype = plan.states, plan.entries, plan.dtype
        gathered = Gathered(dtype, 2 + len(names))
        pointers, sizes, changed = gathered.pointers, gathered.sizes, gathered.changed
        written = gathered.written
        for i, p in enumerate(plan.params):
            g = p.grad
            if g is None:
                continue
            entry = entries[i]
            if entry is None or (entry[1] is not None and not _still(entry, states, p)):
                entry = entries[i] = self._entry(group, p, g, states, names)
            if (
                entry[2] is not None
                and p.dtype is dtype
                and g.dtype is dtype
                and (type(g) is core.Tensor or _has_elements(g))
                and p.is_contiguous()
                and g.is_contiguous()
            ):
                pointers.append(p)
                pointers.append(g)
                pointers += entry[2]
                sizes.append(entry[3])
                changed.append(p)
                written.append(p)
            else:
                self._gather_other(gathered, group, p, g, entry, names)
        return gathered

    def _gather_other(
        self,
        gathered: Gathered,
        group: dict,
        p: core.Tensor,
        g: core.Tensor,
        entry: tuple,
        names: tuple,
    ) -> None:
        """A parameter that is not contiguous, of another dtype, or in pieces: together with the others
        only if alike.
        """
        state = entry[0]
        row = (p, g, *[state[name] for name in names]) if all(n in state for n in names) else None
        if row is not None:
            row = in_memory(row)
        if row is not None and row[0].dtype is gathered.dtype and self._row_fits(row):
            gathered.pointers += row
            gathered.sizes.append(row[0].numel())
            gathered.changed.append(p)
            gathered.written.append(row[0])
            if row[0] is not p:
                gathered.shells.append(p)
        else:
            gathered.other.append((p, g, state))

    def _entry(
        self, group: dict, p: core.Tensor, g: core.Tensor, states: Any, names: tuple[str, ...]
    ) -> tuple:
        """(state, its values, its pointers where they are contiguous like the parameter, number of
        elements).
        """
        if group.get("fused"):
            check_fused(p)
        state = states[p] if names else {}
        if names and not state:
            self._check_gradient(group, g)
            self._init_state(group, p, state)
        elif g.is_sparse:
            self._check_gradient(group, g)
        pointers = None
        if p.is_contiguous() and all(name in state for name in names):
            row = (p, *[state[name] for name in names])
            if self._row_fits((p, p, *row[1:])) and all(t.is_contiguous() for t in row):
                pointers = row[1:]
        return state, tuple(state.values()) if names else None, pointers, p.numel()

    def _row_fits(self, row: tuple) -> bool:
        if row[1].is_sparse:
            return False
        last = len(row) - len(self._scalars)
        for scalar in row[last:]:
            if scalar.dtype is not core.float32 or scalar.device.type != "cpu":
                return False
        return fits(row[:last])

    def _step_group_by_formula(self, group: dict) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                self._check_gradient(group, p.grad)
                self._init_state(group, p, state)
            self._step_one(group, p, p.grad, state)

    def _make_states(self, seen: Callable[[Any], bool]) -> None:
        """Make the states that the next step would make, unless somebody has `seen` that there are
        none.
        """
        if seen(self.state):
            return
        for group in self.param_groups:
            for p in () if group["differentiable"] else group["params"]:
                if p.grad is not None and not p.grad.is_sparse and not self.state.get(p):
                    self._init_state(group, p, self.state[p])

    def _step_group_in_graph(self, group: dict) -> None:
        """The same for a compiler, which fuses operators itself: the step count stays a tensor."""
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            state = self.state[p]
            if not state:
                self._check_gradient(group, g)
                self._init_state(group, p, state)
            step = state["step"].add_(1) if "step" in state else None
            new_p, new_states = self._formula(
                group, p, -g if group.get("maximize") else g, dict(state), step
            )
            for name, value in new_states.items():
                state[name].copy_(value)
            p.copy_(new_p)

    # what capture follows instead of launching kernels
    _step_group._facula_captured_as = _step_group_in_graph  # type: ignore[attr-defined]
    _step_group._facula_prepared_by = _make_states  # type: ignore[attr-defined]

    def step_with(self, group: dict, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        """Update one tensor by a gradient, with the settings of a group and a state of its own."""
        self._step_one(group, p, g, state)

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        """One parameter: complex ones as pairs, through the kernel where that fits, else by
        formula.
        """
        self._check_gradient(group, g)
        names = self._state_names(group)
        view: Any = facula.view_as_real if p.is_complex() else _same
        differentiable = group["differentiable"]
        shown = {name: view(state[name]) for name in names}
        real_p, real_g = view(p), view(g)
        if not differentiable:
            row = in_memory(
                (real_p, real_g, *shown.values(), *[state[name] for name in self._scalars])
            )
            kernel = find_kernel(self._kernel_name(group), real_p.dtype)
            if kernel is not None and self._row_fits(row):
                launch(kernel, [row], self._parameters(group))
                if row[0] is not real_p:
                    core.increment_version(p)
                return
        step = None
        if "step" in state:
            state["step"] = state["step"] + 1 if differentiable else state["step"].add_(1)
            live = group.get("capturable") or (differentiable and self._live_step)
            step = state["step"] if live else float(state["step"])
        if group.get("maximize"):
            real_g = -real_g
        scalars = {name: state[name] for name in self._scalars if name != "step"}
        new_p, new_states = self._formula(group, real_p, real_g, {**shown, **scalars}, step)
        for name, value in new_states.items():
            if differentiable:
                complex_state = p.is_complex() and name in shown
                state[name] = facula.view_as_complex(value) if complex_state else value
            elif name in shown:
                shown[name].copy_(value)
            else:
                state[name].copy_(value)
        real_p.copy_(new_p)


def _same(tensor: core.Tensor) -> Any:
    return tensor


def zeros_like(parameter: core.Tensor) -> Any:
    """Zeros in the parameter's memory order."""
    return facula.zeros_like(parameter, memory_format=facula.preserve_format)


def scalar_dtype() -> Any:
    """The dtype of step counts."""
    wide = core.get_default_dtype() == core.float64
    return core.float64 if wide else core.float32


def scalar_state(value: object, group: dict, parameter: core.Tensor) -> Any:
    """A zero-dimensional state; on the parameter's device where the group is capturable or fused."""
    if isinstance(value, core.Tensor):
        return value.detach().clone().to(scalar_dtype())
    live = group.get("capturable") or group.get("fused")
    return facula.tensor(value, dtype=scalar_dtype(), device=parameter.device if live else None)


def square_root(x: Any) -> Any:
    """Of a number or a tensor."""
    return x.sqrt() if isinstance(x, core.Tensor) else x**0.5


def with_decay(p: core.Tensor, g: core.Tensor, weight_decay: Any) -> Any:
    """The gradient of the loss with the L2 penalty."""
    return (
        g if isinstance(weight_decay, (int, float)) and weight_decay == 0 else g + weight_decay * p
    )


def sign_of(group: dict) -> float:
    """By what the kernels multiply gradients."""
    return -1.0 if group["maximize"] else 1.0


def check_range(name: str, value: Any, low: float = 0.0, high: float | None = None) -> None:
    """Raises ValueError unless ``low <= value`` (and ``value < high``)."""
    if not low <= value or (high is not None and not value < high):
        fail(
            ValueError,
            "optimizer",
            f"Invalid {name} value: {value}",
            hint="see the signature for the default",
        )


def check_one_rate(lr: Any) -> None:
    """Raises where ``lr`` is a tensor of several elements."""
    if isinstance(lr, core.Tensor) and lr.numel() != 1:
        fail(
            ValueError,
            "optimizer",
            "Tensor lr must be 1-element",
            hint="facula.tensor(0.01) has one element",
        )


def check_lr(lr: Any, foreach: bool | None = False, capturable: bool = False) -> None:
    """Raises unless ``lr`` is a sensible number or one-element tensor."""
    if isinstance(lr, core.Tensor):
        if foreach and not capturable:
            fail(
                ValueError,
                "optimizer",
                "lr as a Tensor is not supported for capturable=False and foreach=True",
                hint="leave foreach out, or pass lr.item()",
            )
        check_one_rate(lr)
    if not 0.0 <= lr:
        fail(
            ValueError,
            "optimizer",
            f"Invalid learning rate: {lr}",
            hint="lr is 0 or more; maximize=True climbs",
        )


def check_betas(
    betas: Any, foreach: bool | None = False, capturable: bool = False, tensors: bool = False
) -> None:
    """Raises unless both are in [0, 1), and of one kind where an optimizer takes `tensors` too."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            fail(
                ValueError,
                "optimizer",
                f"Invalid beta parameter at index {i}: {beta}",
                hint="betas lie in [0, 1)",
            )
    if tensors and len({isinstance(beta, core.Tensor) for beta in betas}) > 1:
        fail(
            ValueError,
            "optimizer",
            "betas must be either both floats or both Tensors",
            hint="beta.item() is the number of a tensor",
        )
    if tensors and foreach and not capturable and isinstance(betas[0], core.Tensor):
        fail(
            ValueError,
            "optimizer",
            "betas[0] as a Tensor is not supported for capturable=False and foreach=True",
            hint="leave foreach out, or pass numbers",
        )


def check_fused(parameter: core.Tensor) -> None:
    """Raises where a parameter is none that fused implementations take."""
    if not parameter.is_floating_point() or parameter.device.type == "meta":
        fail(
            RuntimeError,
            "optimizer",
            "`fused=True` requires all the params to be floating point Tensors of supported devices",
            got=f"{parameter.dtype} on {parameter.device.type}",
            hint="leave fused out; model.to_empty(device='cpu') gives parameters of meta memory",
        )


def check_implementation(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """Raises where the ways to compute that are asked for exclude each other."""
    if fused and differentiable:
        fail(
            RuntimeError,
            "optimizer",
            "`fused` does not support `differentiable`",
            hint="leave fused out",
        )
    if fused and foreach:
        fail(
            RuntimeError,
            "optimizer",
            "`fused` and `foreach` cannot be `True` together.",
            hint="leave one of them out",
        )
