"""How one module is cut: what its parameters, inputs and results are on each rank.

Takes: placements of inputs and results. Gives: `ParallelStyle` and PyTorch's styles.
Keeps true: a module that is cut gives what it gave; between modules tensors are this rank's pieces, unless a
style is told to leave distributed tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.distributing import distribute_module, distribute_tensor
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
]  # fmt: skip


class ParallelStyle(ABC):
    """A way to cut a module; `_apply` does so."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        """Cut the module over the ranks of a mesh."""

    def _cut(self, module: nn.Module, name: str, mesh: DeviceMesh, placement: Placement) -> None:
        """Distribute one parameter."""
        value = module._parameters.get(name)
        if value is not None:
            made = distribute_tensor(
                value.detach(), mesh, [placement], src_data_rank=self.src_data_rank
            )
            module.register_parameter(name, nn.Parameter(made, value.requires_grad))


def _entered(value: object, mesh: DeviceMesh, given: Placement, wanted: Placement) -> Any:
    """A tensor, this rank's piece or a distributed one, under placements."""
    if not isinstance(value, core.Tensor):
        return value
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [given])
    return value if value.placements == (wanted,) else value.redistribute(placements=[wanted])


def _left(value: object, wanted: Placement, local: bool) -> Any:
    """A result under a placement, as this rank's piece where that is asked for."""
    if not isinstance(value, DTensor):
        return value
    value = value if value.placements == (wanted,) else value.redistribute(placements=[wanted])
    return value.to_local() if local else value


class _Layer(ParallelStyle):
    """What cut layers have in common."""

    def __init__(
        self, input_layouts: Placement | None, output_layouts: Placement | None, use_local_output: bool,
        default_input: Placement, default_output: Placement,
    ) -> None:  # fmt: skip
        self.input_layouts = (input_layouts or default_input,)
        self.output_layouts = (output_layouts or default_output,)
        self.use_local_output = use_local_output

    def _wanted(self, module: nn.Module) -> Placement:
        """How the module takes its input."""
        raise NotImplementedError

    def _divide(self, module: nn.Module, mesh: DeviceMesh) -> None:
        """Cut the parameters."""
        raise NotImplementedError

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            fail(NotImplementedError, type(self).__name__, "nn.Linear or nn.Embedding was required "
                 "(currently only support nn.Linear and nn.Embedding)", type(module).__name__,
                 "distribute_module() takes a function for other modules")  # fmt: skip
        wanted = self._wanted(module)

        def enter(inner: object, inputs: Any, mesh: DeviceMesh) -> Any:
            return (_entered(inputs[0], mesh, self.input_layouts[0], wanted), *inputs[1:])

        def leave(inner: object, output: object, mesh: DeviceMesh) -> Any:
            return _left(output, self.output_layouts[0], self.use_local_output)

        self._divide(module, device_mesh)
        return distribute_module(module, device_mesh, None, enter, leave)


class ColwiseParallel(_Layer):
    """Each rank has some of the outputs. [Shoeybi et al. 2019]"""

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        """Say how tensors come and go.

        Args:
            input_layouts: default: replicated. output_layouts: default: cut along the last dimension.
        """
        super().__init__(input_layouts, output_layouts, use_local_output, Replicate(), Shard(-1))

    def _wanted(self, module: nn.Module) -> Placement:
        return Replicate()

    def _divide(self, module: nn.Module, mesh: DeviceMesh) -> None:
        dim = 0 if isinstance(module, nn.Linear) else 1
        self._cut(module, "weight", mesh, Shard(dim))
        self._cut(module, "bias", mesh, Shard(0))


class RowwiseParallel(_Layer):
    """Each rank has some of the inputs; results are added up."""

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        """Say how tensors come and go.

        Args:
            input_layouts: default: cut along the last dimension. output_layouts: default: replicated.
        """
        super().__init__(input_layouts, output_layouts, use_local_output, Shard(-1), Replicate())

    def _wanted(self, module: nn.Module) -> Placement:
        return Shard(-1) if isinstance(module, nn.Linear) else Replicate()

    def _divide(self, module: nn.Module, mesh: DeviceMesh) -> None:
        self._cut(module, "weight", mesh, Shard(1 if isinstance(module, nn.Linear) else 0))
        self._cut(module, "bias", mesh, Replicate())


class SequenceParallel(ParallelStyle):
    """Norms and dropout on pieces of the sequence; parameters are whole on each rank."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        cut = self.sequence_sharding[0]

        def enter(inner: object, inputs: Any, mesh: DeviceMesh) -> Any:
            return (_entered(inputs[0], mesh, cut, cut), *inputs[1:])

        def leave(inner: object, output: object, mesh: DeviceMesh) -> Any:
            return _left(output, cut, self.use_local_output)

        return distribute_module(module, device_mesh, None, enter, leave)


def _many(value: object) -> tuple[Any, ...]:
    return () if value is None else tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _checked(style: str, given: object, wanted: Any) -> None:
    if len(_many(given)) != len(_many(wanted)):
        fail(AssertionError, style, "as many layouts as desired layouts were required (should have same "
             "length!)", f"{len(_many(given))} and {len(_many(wanted))}",
             "None leaves an argument as it is")  # fmt: skip


class PrepareModuleInput(ParallelStyle):
    """Inputs become distributed tensors, under placements that the module wants."""

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_output: bool = False,
    ) -> None:  # fmt: skip
        """Say what comes, and what the module wants; None leaves an argument as it is.

        Args:
            use_local_output: whether the module gets this rank's pieces.
        """
        _checked("PrepareModuleInput", input_layouts, desired_input_layouts)
        self.given, self.wanted = _many(input_layouts), _many(desired_input_layouts)
        self.given_named = input_kwarg_layouts or {}
        self.wanted_named = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output

    def _one(self, value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None or wanted is None:
            return value
        made = _entered(value, mesh, given, wanted)
        return made.to_local() if self.use_local_output and isinstance(made, DTensor) else made

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def enter(inner: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.given and len(args) != len(self.given):
                fail(ValueError, "PrepareModuleInput", f"{len(self.given)} positional arguments were "
                     "required (module inputs and input_layouts should have same length!)", len(args),
                     "None leaves an argument as it is")  # fmt: skip
            made = tuple(
                self._one(v, device_mesh, g, w)
                for v, g, w in zip(args, self.given or args, self.wanted or args, strict=True)
            ) if self.given else args  # fmt: skip
            named = {
                k: self._one(v, device_mesh, self.given_named.get(k), self.wanted_named.get(k))
                for k, v in kwargs.items()
            }
            return made, named

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Results are brought under placements."""

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        """Say what the module gives, and what is wanted; None leaves a result as it is."""
        _checked("PrepareModuleOutput", output_layouts, desired_output_layouts)
        self.given, self.wanted = _many(output_layouts), _many(desired_output_layouts)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def leave(inner: object, args: tuple[Any, ...], output: object) -> Any:
            values = output if isinstance(output, tuple) else (output,)
            if len(values) != len(self.given):
                fail(ValueError, "PrepareModuleOutput", f"{len(self.given)} results were required (module "
                     "outputs and output_layouts should have same length!)", len(values),
                     "None leaves a result as it is")  # fmt: skip
            made = tuple(
                v if g is None or w is None
                else _left(_entered(v, device_mesh, g, w), w, self.use_local_output)
                for v, g, w in zip(values, self.given, self.wanted, strict=True)
            )  # fmt: skip
            return made if isinstance(output, tuple) else made[0]

        module.register_forward_hook(leave)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` together."""

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None, desired_input_kwarg_layouts: Any = None,
        use_local_input: bool = False, output_layouts: Any, desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.before = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, use_local_output=use_local_input,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )  # fmt: skip
        self.after = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return self.after._apply(self.before._apply(module, device_mesh), device_mesh)
