"""Masks of activations: what a layer takes in is gathered, reduced, and masked.

Takes: a model, its layers, and functions that gather, reduce and mask. Gives: `ActivationSparsifier`.
Keeps true: a layer has one hook of the sparsifier: one that gathers, and from `squash_mask` on one that masks.
"""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

import facula
from facula import nn
from facula.core.errors import fail

from ...sparsifier.utils import module_to_fqn

__all__ = ["ActivationSparsifier"]

_FUNCTIONS = ("aggregate_fn", "reduce_fn", "mask_fn")
#: what of a layer's entry belongs to the model and is not saved
_OF_THE_MODEL = ("hook", "layer")


def _refuse(required: str, got: Any, hint: str) -> NoReturn:
    fail(AssertionError, "ActivationSparsifier", required, got, hint=hint)


class ActivationSparsifier:
    """What masks the inputs of layers.

    Args:
        model: the model whose layers are registered.
        aggregate_fn: of what was gathered and a new input, gives what is gathered then.
        reduce_fn: of what was gathered, gives the tensor that `mask_fn` sees.
        mask_fn: of that tensor and the settings, gives the mask.
        features: positions along `feature_dim` that get masks of their own; None is all in one.
        feature_dim: the dimension of these.
        sparse_config: settings for `mask_fn`.

    Functions and settings stand for the layers that are registered without their own.

    >>> from facula.ao.pruning._experimental.activation_sparsifier.activation_sparsifier import (
    ...     ActivationSparsifier)
    >>> model = facula.nn.Sequential(facula.nn.Identity())
    >>> sparsifier = ActivationSparsifier(
    ...     model, aggregate_fn=facula.add, reduce_fn=lambda x: x.mean(0),
    ...     mask_fn=lambda x, least: (x > least).float(), least=1.0)
    >>> sparsifier.register_layer(model[0])
    >>> _ = model(facula.tensor([[1.0, 3.0]]))
    >>> sparsifier.step()
    >>> sparsifier.squash_mask()
    >>> model(facula.tensor([[5.0, 7.0]]))
    tensor([[0., 7.]])
    """

    def __init__(
        self,
        model: nn.Module,
        aggregate_fn: Callable[..., Any] | None = None,
        reduce_fn: Callable[..., Any] | None = None,
        mask_fn: Callable[..., Any] | None = None,
        features: list[int] | None = None,
        feature_dim: int | None = None,
        **sparse_config: Any,
    ) -> None:
        self.model = model
        self.defaults: dict[str, Any] = defaultdict(None)
        self.defaults.update(
            sparse_config=sparse_config,
            aggregate_fn=aggregate_fn,
            reduce_fn=reduce_fn,
            mask_fn=mask_fn,
            features=features,
            feature_dim=feature_dim,
        )
        self.data_groups: dict[str, dict[str, Any]] = defaultdict(dict)
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)

    @staticmethod
    def _check(entry: dict[str, Any]) -> None:
        """Refuses an entry whose functions do not work, tried with a tensor of ones."""
        for key in _FUNCTIONS:
            if not callable(entry[key]):
                _refuse(f"{key} must be callable", entry[key], "give it here or to the constructor")
        if entry["features"] is not None and entry["feature_dim"] is None:
            _refuse("need feature dim to select features", None, "pass feature_dim=")

    def register_layer(
        self,
        layer: nn.Module,
        aggregate_fn: Callable[..., Any] | None = None,
        reduce_fn: Callable[..., Any] | None = None,
        mask_fn: Callable[..., Any] | None = None,
        features: list[int] | None = None,
        feature_dim: int | None = None,
        **sparse_config: Any,
    ) -> None:
        """Begins to gather what a layer of the model takes in.

        Args:
            layer: the layer.
            aggregate_fn, reduce_fn, mask_fn, features, feature_dim: as for the class, for this layer.
            sparse_config: settings of this layer, over those of the class.
        """
        name = module_to_fqn(self.model, layer)
        if name is None:
            _refuse("layer not found in the model", type(layer).__name__, "register layers of it")
        own = {
            "aggregate_fn": aggregate_fn,
            "reduce_fn": reduce_fn,
            "mask_fn": mask_fn,
            "features": features,
            "feature_dim": feature_dim,
        }
        entry = copy.deepcopy(dict(self.defaults))
        entry.update({key: value for key, value in own.items() if value is not None})
        entry["sparse_config"].update(sparse_config)
        self._check(entry)
        if name in self.data_groups:
            warnings.warn(
                f"{name} is registered already: its new settings take the place of the old ones",
                stacklevel=2,
            )
            self.unregister_layer(name)
        entry["layer"] = layer
        self.data_groups[name] = entry
        self.state[name]["mask"] = None
        entry["hook"] = layer.register_forward_pre_hook(self._aggregate_hook(name))
        entry["hook_state"] = "aggregate"

    @staticmethod
    def _pieces(entry: dict[str, Any], data: facula.Tensor) -> list[facula.Tensor]:
        """What each mask of an entry is for: the whole input, or one feature of it each."""
        if entry["features"] is None:
            return [data]
        features = facula.tensor(entry["features"], device=data.device).split(1)
        return [data.index_select(entry["feature_dim"], one) for one in features]

    def _aggregate_hook(self, name: str) -> Callable[..., None]:
        """What a layer calls before it runs, while its inputs are gathered."""

        def gather(module: nn.Module, inputs: tuple[facula.Tensor, ...]) -> None:
            entry = self.data_groups[name]
            new: list[Any] = self._pieces(entry, inputs[0])
            old = entry.get("data")
            if old is not None:
                old = [old] if entry["features"] is None else old
                new = [entry["aggregate_fn"](*pair) for pair in zip(old, new, strict=True)]
            entry["data"] = new[0] if entry["features"] is None else new

        return gather

    def _sparsify_hook(self, name: str) -> Callable[..., Any]:
        """What a layer calls before it runs, once its mask is squashed."""
        mask = self.get_mask(name)
        entry = self.data_groups[name]

        def sparsify(module: nn.Module, inputs: tuple[facula.Tensor, ...]) -> facula.Tensor:
            data = inputs[0]
            if entry["features"] is None:
                return data * mask
            masked = data.clone()
            for feature, one, piece in zip(
                entry["features"], mask, self._pieces(entry, data), strict=True
            ):
                place = facula.tensor([feature], device=data.device)
                masked = masked.index_copy(entry["feature_dim"], place, piece * one)
            return masked

        return sparsify

    def get_mask(self, name: str | None = None, layer: nn.Module | None = None) -> Any:
        """The mask of a layer, or the list of its features' masks.

        Args:
            name: its dotted name.
            layer: the layer itself, where no name is given.
        """
        if name is None and layer is None:
            _refuse("Need at least name or layer obj to retrieve mask", None, "pass one of them")
        if name is None:
            assert layer is not None
            name = module_to_fqn(self.model, layer)
            if name is None:
                _refuse("layer not found in the specified model", layer, "pass a layer of it")
        if name not in self.state:
            fail(
                ValueError,
                "get_mask",
                "the name of a registered layer",
                name,
                hint="register_layer() makes it one",
            )
        mask = self.state[name].get("mask")
        if mask is None or (isinstance(mask, list) and any(one is None for one in mask)):
            fail(
                ValueError,
                "get_mask",
                "a layer that has run, and a step behind it",
                name,
                hint="shape unknown: call the model and step() first",
            )
        return mask

    def unregister_layer(self, name: str) -> None:
        """Leaves a layer alone from now on.

        Args:
            name: its dotted name.
        """
        self.data_groups[name]["hook"].remove()
        self.data_groups.pop(name)
        self.state.pop(name, None)

    def step(self) -> None:
        """Computes masks of all layers from what they gathered, and forgets that."""
        with facula.no_grad():
            for name, entry in self.data_groups.items():
                self.update_mask(name, entry["data"], entry)
                del entry["data"]

    def update_mask(self, name: str, data: Any, configs: dict[str, Any]) -> None:
        """Computes the mask of one layer.

        Args:
            name: its dotted name.
            data: what was gathered.
            configs: the layer's entry.
        """
        whole = configs["features"] is None
        masks = [
            configs["mask_fn"](configs["reduce_fn"](one), **configs["sparse_config"])
            for one in ([data] if whole else data)
        ]
        self.state[name]["mask"] = masks[0] if whole else masks

    def squash_mask(self, attach_sparsify_hook: bool = True, **kwargs: Any) -> None:
        """Ends the gathering.

        Args:
            attach_sparsify_hook: whether the masks work from now on.
            kwargs: not looked at.
        """
        for name, entry in self.data_groups.items():
            entry["hook"].remove()
            entry["hook"], entry["hook_state"] = None, "None"
            if attach_sparsify_hook:
                entry["hook"] = entry["layer"].register_forward_pre_hook(self._sparsify_hook(name))
                entry["hook_state"] = "sparsify"

    @staticmethod
    def _convert_mask(states: dict[str, Any], sparse_coo: bool = True) -> dict[str, Any]:
        """The same states, with masks of the sparse layout, or without."""

        def turned(mask: Any) -> Any:
            if isinstance(mask, list):
                return [turned(one) for one in mask]
            if mask is None:
                return None
            return mask.to_sparse_coo() if sparse_coo else mask.to_dense()

        converted: dict[str, Any] = defaultdict(dict)
        for name, state in states.items():
            converted[name] = {**state, "mask": turned(state["mask"])}
        return converted

    def _get_serializable_data_groups(self) -> dict[str, Any]:
        """The entries without what belongs to the model."""
        return {
            name: {key: value for key, value in entry.items() if key not in _OF_THE_MODEL}
            for name, entry in self.data_groups.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes; masks are sparse tensors in it."""
        return {
            "state": self._convert_mask(self.state),
            "data_groups": self._get_serializable_data_groups(),
            "defaults": self.defaults,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over settings and masks, and registers the layers of this sparsifier's model.

        Args:
            state_dict: what `state_dict` gave.
        """
        for name, entry in state_dict["data_groups"].items():
            try:
                layer = self.model.get_submodule(name)
            except AttributeError:
                fail(
                    RuntimeError,
                    "load_state_dict",
                    "a layer of the model for every group",
                    name,
                    hint="make the sparsifier with the same model first",
                )
            entry = {**entry, "layer": layer, "hook": None}
            self.data_groups[name] = entry
            self.state[name] = self._convert_mask({name: state_dict["state"][name]}, False)[name]
            if entry["hook_state"] == "aggregate":
                entry["hook"] = layer.register_forward_pre_hook(self._aggregate_hook(name))
            elif entry["hook_state"] == "sparsify":
                entry["hook"] = layer.register_forward_pre_hook(self._sparsify_hook(name))
        self.defaults = state_dict["defaults"]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for name, entry in self.data_groups.items():
            lines += ["\tData Group", f"\t    name: {name}"]
            shown = sorted(set(entry) - {"data", "hook", *_FUNCTIONS})
            lines += [f"\t    {key}: {entry[key]}" for key in shown]
        return "\n".join([*lines, ")"])
