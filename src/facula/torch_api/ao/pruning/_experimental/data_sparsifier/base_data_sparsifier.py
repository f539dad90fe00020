"""What all sparsifiers of data do.

Takes: tensors, parameters and tables by name. Gives: `BaseDataSparsifier`; a subclass has `update_mask`.
Keeps true: the data is held, not copied; `get_data(name)` is the tensor that was given.
"""

from __future__ import annotations

import abc
import warnings
from collections import defaultdict
from typing import Any

import facula
from facula import nn
from facula.core.errors import fail
from facula.nn.utils import parametrize

from ...sparsifier.base_sparsifier import BaseSparsifier
from ...sparsifier.utils import FakeSparsity

__all__ = ["BaseDataSparsifier"]

EMBEDDING_TYPES: set[type] = {nn.Embedding, nn.EmbeddingBag}
SUPPORTED_TYPES: set[type] = {facula.Tensor, nn.Parameter, *EMBEDDING_TYPES}


class _Container(nn.Module):
    """What has the data as buffers and parameters, so that it can be parametrized."""


class BaseDataSparsifier(BaseSparsifier):
    """What computes masks for tensors that are given one by one.

    Args:
        data_list: pairs of a name and a tensor, parameter or table.
        defaults: settings of all data that says no other.

    >>> from facula.ao.pruning._experimental.data_sparsifier import BaseDataSparsifier
    >>> class First(BaseDataSparsifier):
    ...     def update_mask(self, name, data, **config):
    ...         self.get_mask(name)[0] = 0
    >>> sparsifier = First([("a", facula.tensor([5.0, 6.0]))])
    >>> sparsifier.step()
    >>> sparsifier.get_data("a", return_original=False)
    tensor([0., 6.])
    """

    def __init__(self, data_list: list[tuple[str, Any]] | None = None, **defaults: object) -> None:
        super().__init__(defaults=defaults)
        self._container: nn.Module = _Container()
        self.data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, data in data_list or ():
            self.add_data(name, data, **self.defaults)

    def prepare(self, model: object, config: object) -> None:
        """Not for data: there is no model.

        Args:
            model, config: not looked at.
        """
        fail(
            NotImplementedError,
            type(self).__name__,
            "data, by name",
            "a model",
            hint="add_data(name, tensor) takes what is to be sparsified",
        )

    def _extract_weight(self, data: Any) -> facula.Tensor:
        """The tensor of what was given: of a table, its weight."""
        kind = type(data)
        if kind not in SUPPORTED_TYPES and not isinstance(data, (*EMBEDDING_TYPES, facula.Tensor)):
            fail(
                AssertionError,
                type(self).__name__,
                "a tensor, a parameter, an Embedding or an EmbeddingBag",
                f"specified data type:{kind} not supported at the moment",
                hint="give the tensor inside of it",
            )
        return data if isinstance(data, facula.Tensor) else data.weight

    def add_data(self, name: str, data: object, reuse_mask: bool = True, **config: Any) -> None:
        """Takes a tensor in.

        Args:
            name: its name; a name that is there gets the new data.
            data: a tensor, a parameter, or a table, whose weight counts.
            reuse_mask: whether data in the place of other data gets the mask of that.
            config: settings that differ from the defaults.
        """
        weight = self._extract_weight(data)
        mask = config.pop("mask", None)
        kind = config.pop("parametrization", FakeSparsity)
        if name in self.state:
            warnings.warn(f"{name} is there already: the new data takes its place", stacklevel=2)
            mask = self._mask_for_new_data(name, weight, reuse_mask, mask)
            config = config or self.data_groups[name]
            self._delete_data(name)
        if mask is None:
            mask = facula.ones_like(weight, requires_grad=False)
        if isinstance(weight, nn.Parameter):
            self._container.register_parameter(name, weight)
        else:
            self._container.register_buffer(name, weight)
        self.data_groups[name] = {**self.defaults, **config}
        self.state[name]["mask"] = mask
        parametrize.register_parametrization(self._container, name, kind(mask))

    def _mask_for_new_data(
        self, name: str, weight: facula.Tensor, reuse_mask: bool, mask: facula.Tensor | None
    ) -> facula.Tensor | None:
        """The mask of data that comes in the place of other data; None where it is to be made."""
        if not reuse_mask:
            return mask
        old = self.get_data(name, return_original=None)
        if old.shape != weight.shape:
            fail(
                AssertionError,
                "add_data",
                f"data of the shape {tuple(old.shape)}, to keep the mask",
                tuple(weight.shape),
                hint="pass reuse_mask=False for a mask of its own",
            )
        return self.get_mask(name)

    def _known(self, name: str) -> None:
        if name not in self.data_groups:
            fail(
                ValueError,
                type(self).__name__,
                "data with specified name does not exist",
                name,
                hint=f"there is {sorted(self.data_groups)}",
            )

    def get_data(self, name: str, return_original: bool | None = True) -> Any:
        """The data of a name.

        Args:
            name: the name.
            return_original: whether to give what was given, not its product with the mask.
        """
        self._known(name)
        if not parametrize.is_parametrized(self._container, name):
            if return_original:
                fail(
                    ValueError,
                    "get_data",
                    "data whose mask is not squashed",
                    f"{name}: mask squashed - original mask value does not exist",
                    hint="pass return_original=False for the masked data",
                )
            return getattr(self._container, name)
        if return_original is False:
            return getattr(self._container, name)
        return self._container.parametrizations[name].original

    def get_mask(self, name: str) -> Any:
        """The mask of a name.

        Args:
            name: the name.
        """
        self._known(name)
        return self.state[name]["mask"]

    @staticmethod
    def _convert_mask(states: dict[str, Any], sparse_coo: bool = True) -> dict[str, Any]:
        """The same states, with masks of the sparse layout, or without."""
        turned: dict[str, Any] = defaultdict(dict)
        for name, state in states.items():
            turned[name] = dict(state)
            mask = state.get("mask")
            if mask is not None:
                turned[name]["mask"] = mask.to_sparse_coo() if sparse_coo else mask.to_dense()
        return turned

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes; masks are sparse tensors in it."""
        return {
            "state": self._convert_mask(self.state),
            "data_groups": self.data_groups,
            "_container": self._container.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Takes over data, settings and masks; what this sparsifier had goes.

        Args:
            state_dict: what `state_dict` gave.
            strict: whether data without settings or the reverse is an error.
        """
        states = self._convert_mask(state_dict["state"], sparse_coo=False)
        groups, saved = state_dict["data_groups"], state_dict["_container"]
        if strict and set(states) != set(groups):
            fail(
                RuntimeError,
                "load_state_dict",
                "a state for every group",
                sorted(set(states) ^ set(groups)),
                hint="pass strict=False to load what has both",
            )
        container = _Container()
        data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name in groups:
            if name not in states:
                continue
            squashed = name in saved
            tensor = saved[name] if squashed else saved[f"parametrizations.{name}.original"]
            container.register_buffer(name, tensor)
            if not squashed:
                mask = states[name].get("mask")
                mask = facula.ones_like(tensor) if mask is None else mask
                parametrize.register_parametrization(container, name, FakeSparsity(mask))
            data_groups[name] = dict(groups[name])
        self.__setstate__({"state": states, "data_groups": data_groups, "_container": container})

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self._convert_mask(self.state),
            "data_groups": self.data_groups,
            "_container": self._container.state_dict(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get("_container"), nn.Module):
            self.__dict__.update(state)
            return
        self.__dict__.update(defaults=state["defaults"], groups=[], enable_mask_update=True)
        self.load_state_dict(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, (name, entry) in enumerate(self.data_groups.items()):
            lines += [""] * bool(number) + ["\tData Group", f"\t    name: {name}"]
            lines += [f"\t    {key}: {entry[key]}" for key in sorted(entry)]
        return "\n".join([*lines, ")"]) if self.data_groups else lines[0] + ")"

    def squash_mask(
        self,
        *args: Any,
        leave_parametrized: bool = True,
        names: str | list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Takes masks off.

        Args:
            args, kwargs: not looked at.
            leave_parametrized: whether the data stays multiplied by its mask.
            names: which data; None is all of it.
        """
        chosen = list(self.data_groups) if names is None else names
        for name in [chosen] if isinstance(chosen, str) else chosen:
            parametrize.remove_parametrizations(
                self._container, name, leave_parametrized=leave_parametrized
            )

    def step(self) -> None:  # type: ignore[override]  # there is no path
        """Computes all masks anew, where `enable_mask_update` is on."""
        if not self.enable_mask_update:
            return
        with facula.no_grad():
            for name, entry in self.data_groups.items():
                self.update_mask(name, self.get_data(name), **entry)

    @abc.abstractmethod
    def update_mask(  # type: ignore[override]  # data by name instead of a module's tensor
        self, name: str, data: object, **kwargs: object
    ) -> None:
        """Changes the mask of one tensor.

        Args:
            name: its name; `get_mask(name)` is the mask.
            data: the tensor.
            kwargs: its settings.
        """

    def _delete_data(self, name: str) -> None:
        """Forgets the data of a name."""
        if parametrize.is_parametrized(self._container, name):
            self.squash_mask(names=name, leave_parametrized=False)
        delattr(self._container, name)
        self.state.pop(name)
        self.data_groups.pop(name)
