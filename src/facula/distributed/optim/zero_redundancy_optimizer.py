"""`ZeroRedundancyOptimizer`: each rank updates some of the parameters, and keeps the state of these.

Takes: parameters that all ranks have, with equal gradients, and a kind of optimizer. Gives: an optimizer.
Keeps true: after a step all ranks have equal parameters; the state of a parameter is on one rank, until
`consolidate_state_dict` brings all of it to one. [Rajbhandari et al. 2020, stage 1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.distributed.data_parallel import spread
from facula.distributed.object_operations import gather_object
from facula.distributed.world import own_group
from facula.optim import Optimizer

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer among ranks.

    >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), facula.optim.Adam, lr=1e-3)
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        """Spread the parameters over the ranks.

        Args:
            optimizer_class: what updates them.
            overlap_with_ddp: whether the hook `hook_with_zero_step` steps during the backward pass;
                `step()` then does nothing more.
            parameters_as_bucket_view: kept for PyTorch's API; parameters always go together.
            defaults: the options of `optimizer_class`.
        """
        self._overlap = overlap_with_ddp
        self.process_group = own_group(process_group, "ZeroRedundancyOptimizer")
        super().__init__(params, dict(defaults))
        self._owner = self._spread()
        me = self.process_group.rank()
        local = [
            {**group, "params": [p for p in group["params"] if self._owner[id(p)] == me]}
            for group in self.param_groups
        ]
        self.optim = optimizer_class(local, **defaults)
        for group, mine in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({k: v for k, v in mine.items() if k != "params"})
        self._whole: dict[int, Any] | None = None

    def _all(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def _spread(self) -> dict[int, int]:
        """The rank of each parameter: the largest first, to the rank that has least."""
        load = [0] * self.process_group.size()
        owner: dict[int, int] = {}
        for p in sorted(self._all(), key=lambda p: -p.numel()):
            rank = load.index(min(load))
            owner[id(p)] = rank
            load[rank] += p.numel()
        return owner

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; those of a group that is added later are spread over the ranks, too."""
        super().add_param_group(param_group)
        if not hasattr(self, "optim"):
            return
        group = self.param_groups[-1]
        size, me = self.process_group.size(), self.process_group.rank()
        self._owner.update({id(p): i % size for i, p in enumerate(group["params"])})
        mine = [p for p in group["params"] if self._owner[id(p)] == me]
        self.optim.add_param_group({**group, "params": mine})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's parameters, and take those of the others."""
        if self._overlap:
            return None if closure is None else closure()
        return self.step_exchanged(closure)

    def step_exchanged(self, closure: Callable[[], Any] | None = None) -> Any:
        """A step, whoever asks for it: the hook of the exchange, or `step()`."""
        self.take_options()
        loss = self.optim.step(closure) if closure is not None else self.optim.step()
        self.share()
        return loss

    def take_options(self) -> None:
        """Have this rank's optimizer step with the options of the groups."""
        self._options(self.param_groups, self.optim.param_groups)

    def share(self) -> None:
        """Give all ranks what this one has updated, and take theirs."""
        self._options(self.optim.param_groups, self.param_groups)
        for rank in range(self.process_group.size()):
            spread([p for p in self._all() if self._owner[id(p)] == rank], self.process_group, rank)
        self._whole = None

    @staticmethod
    def _options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for one, other in zip(source, target, strict=True):
            other.update({k: v for k, v in one.items() if k != "params"})

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all parameters to one rank; all ranks call this."""
        number = {id(p): i for i, p in enumerate(self._all())}
        mine = {number[id(p)]: state for p, state in self.optim.state.items()}
        every: list[Any] = [None] * self.process_group.size()
        root = self.process_group.ranks.index(to)
        gather_object(mine, every, group=self.process_group, group_dst=root)
        if self.process_group.rank() == root:
            self._whole = {k: v for states in every for k, v in states.items()}

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, on the rank that has it.

        Raises:
            RuntimeError: `consolidate_state_dict` has not been called since the last step.
        """
        if self._whole is None:
            fail(
                RuntimeError,
                "ZeroRedundancyOptimizer.state_dict",
                "a consolidated state was required (Optimizer state has not been consolidated on this "
                "rank)",
                "the state of this rank's parameters",
                "call consolidate_state_dict(to=rank) on all ranks first",
            )
        number = {id(p): i for i, p in enumerate(self._all())}
        groups = [
            {**group, "params": [number[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(sorted(self._whole.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of this rank's parameters out of that of all."""
        every, me = self._all(), self.process_group.rank()
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            fail(ValueError, "ZeroRedundancyOptimizer", "a state of as many parameters was required",
                 [len(g["params"]) for g in groups],
                 hint="load it into an optimizer of the same parameters and groups")  # fmt: skip
        self._options(groups, self.param_groups)
        self._options(groups, self.optim.param_groups)
        for number, state in state_dict["state"].items():
            p = every[number]
            if self._owner[id(p)] == me:
                self.optim.state[p] = {
                    k: v.detach().clone() if isinstance(v, core.Tensor) else v
                    for k, v in state.items()
                }
