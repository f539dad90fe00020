"""How chains of layers get smaller, one function for each kind of chain.

Takes: a first layer with a mask of its rows, what follows it, and the layer that reads it. Gives: the functions that
`base_structured_sparsifier` has for its patterns. Keeps true: the last layer of a chain computes what it did.

A row that goes gives zero, or its bias where biases stay, at every place. What becomes of that in activations
and pools is added to the bias of the layer that reads it. Where it is not zero and something pads with zeros
on the way, it differs from place to place; then rows stay, as zeros with their bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import nn
from facula.core.errors import fail
from facula.nn.utils import parametrize
from facula.nn.utils.parametrize import ParametrizationList

from .parametrization import BiasHook, FakeStructuredSparsity

Step = Callable[[facula.Tensor], facula.Tensor]


def _remove_bias_handles(module: nn.Module) -> None:
    """Takes the hook off that adds the bias of a masked layer."""
    for key, hook in list(module._forward_hooks.items()):
        if isinstance(hook, BiasHook):
            del module._forward_hooks[key]


def _mask_of(module: nn.Module, name: str = "weight") -> facula.Tensor | None:
    """The mask of rows that a tensor of a module has."""
    if parametrize.is_parametrized(module, name):
        for one in module.parametrizations[name]:
            if isinstance(one, FakeStructuredSparsity):
                return one.mask
    return None


def _taken_mask(module: nn.Module, name: str = "weight") -> facula.Tensor:
    """The mask of rows of a tensor, which is multiplied into it."""
    mask = _mask_of(module, name)
    if mask is None:
        fail(
            AssertionError,
            "prune",
            f"a mask of the rows of {name}",
            type(module).__name__,
            hint="name the tensor in the config of prepare()",
        )
    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    return mask


def _held_bias(module: Any) -> str:
    """Where a layer has its bias: in `_bias` while its rows are masked."""
    return "_bias" if "_bias" in module._parameters else "bias"


def _set_bias(module: Any, bias: facula.Tensor | None) -> None:
    """Gives a layer that is no longer masked its bias."""
    module._parameters.pop("_bias", None)
    module.bias = None if bias is None else nn.Parameter(bias.detach().clone())


def _pruned_rows(module: Any, keep_rows: bool = False) -> facula.Tensor:
    """Takes the rows of a layer out that its mask says, and gives the mask.

    With `keep_rows` the rows stay as zeros, with their bias where biases stay."""
    if getattr(module, "groups", 1) != 1:
        fail(
            NotImplementedError,
            "prune",
            "convolutions of one group",
            f"{module.groups} groups",
            hint="leave grouped convolutions out of the config",
        )
    mask = _taken_mask(module)
    _remove_bias_handles(module)
    bias = getattr(module, _held_bias(module))
    stays = bias is not None and not getattr(module, "prune_bias", True)
    if bias is not None:
        bias = bias.detach()
        _set_bias(module, (bias if stays else bias * mask) if keep_rows else bias[mask])
    if not keep_rows:
        module.weight = nn.Parameter(module.weight.detach()[mask])
        rows = int(mask.sum())
        if isinstance(module, nn.Linear):
            module.out_features = rows
        else:
            module.out_channels = rows
    return mask


def _pruned_columns(layer: Any, mask: facula.Tensor, constants: facula.Tensor | None) -> None:
    """Takes out what a layer has for the rows that went in front of it, and adds what they gave to its bias."""
    if constants is not None:
        weight = layer.weight.detach()[:, ~mask]
        added = weight.flatten(2).sum(2) if weight.dim() > 2 else weight
        added = added @ constants[~mask]
        name = _held_bias(layer)
        old = getattr(layer, name)
        setattr(layer, name, nn.Parameter(added if old is None else old.detach() + added))
    if parametrize.is_parametrized(layer, "weight"):
        held: ParametrizationList = layer.parametrizations["weight"]
        held.original = nn.Parameter(held.original.detach()[:, mask])
    else:
        layer.weight = nn.Parameter(layer.weight.detach()[:, mask])
    if isinstance(layer, nn.Linear):
        layer.in_features = int(mask.sum())
    else:
        layer.in_channels = int(mask.sum())


def _pruned_slopes(step: Any, mask: facula.Tensor) -> None:
    """Takes out the slopes of rows that went, where an activation has one for each."""
    if isinstance(step, nn.PReLU) and step.num_parameters > 1:
        step.weight = nn.Parameter(step.weight.detach()[mask])
        step.num_parameters = int(mask.sum())


def _keeps_constants(step: Any) -> bool:
    """Whether a pool gives a constant for a constant, at the edges too."""
    try:
        with facula.no_grad():
            return bool((step(facula.ones(1, 1, 64, 64)) == 1).all())
    except (
        RuntimeError,
        ValueError,
    ):  # its window is larger, or it asks for more: nothing is known
        return False


def _pads(conv: Any) -> bool:
    """Whether a convolution sees anything but what it was given."""
    return conv.padding != "valid" and any(
        size != 0 for size in ((1,) if isinstance(conv.padding, str) else conv.padding)
    )


def _constants(first: Any, steps: list[Any], last: object) -> tuple[facula.Tensor, bool]:
    """What rows that go give to the last layer, and whether they give it at every place."""
    bias = getattr(first, _held_bias(first))
    if bias is None or getattr(first, "prune_bias", True):
        bias = facula.zeros(
            first.weight.shape[0], dtype=first.weight.dtype, device=first.weight.device
        )
    gone = ~_mask_of(first)  # type: ignore[operator]  # chains begin at a masked layer
    constants, everywhere = bias.detach(), True
    for step in steps:
        if isinstance(step, _Pool):
            everywhere &= not constants[gone].any() or _keeps_constants(step.pool)
        else:
            with facula.no_grad():
                constants = step(constants[None])[0]
    if isinstance(last, nn.Conv2d):
        everywhere &= not constants[gone].any() or not _pads(last)
    return constants, everywhere


class _Pool:
    """A step of a chain that gives every place the values of several."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool


def _chain(first: object, steps: list[Any], last: object, per_row: int = 1) -> None:
    """Prunes a layer, what stands behind it, and the layer that reads it, `per_row` inputs for each row."""
    constants, everywhere = _constants(first, steps, last)
    if not everywhere:
        _pruned_rows(first, keep_rows=True)
        return
    mask = _pruned_rows(first)
    for step in steps:
        _pruned_slopes(step, mask)
    if per_row > 1:
        constants, mask = constants.repeat_interleave(per_row), mask.repeat_interleave(per_row)
    _pruned_columns(last, mask, constants if constants[~mask].any() else None)


def prune_linear(linear: nn.Linear) -> None:
    """The last layer of a model: it puts out less.

    Args:
        linear: the layer.
    """
    _pruned_rows(linear)


def prune_linear_linear(linear1: nn.Linear, linear2: nn.Linear) -> None:
    """Two linear layers.

    Args:
        linear1, linear2: the layers.
    """
    prune_linear_activation_linear(linear1, None, linear2)


def prune_linear_activation_linear(
    linear1: nn.Linear, activation: Step | None, linear2: nn.Linear
) -> None:
    """Two linear layers with an activation between them.

    Args:
        linear1, linear2: the layers.
        activation: a module or a function of each element; None is none.
    """
    _chain(linear1, [activation] if activation else [], linear2)


def prune_conv2d(conv2d: nn.Conv2d) -> None:
    """The last layer of a model: it puts out less.

    Args:
        conv2d: the layer.
    """
    _pruned_rows(conv2d)


def prune_conv2d_padded(conv2d_1: nn.Conv2d) -> None:
    """A layer whose rows become zeros and stay, with their biases: what reads it pads.

    Args:
        conv2d_1: the layer.
    """
    _pruned_rows(conv2d_1, keep_rows=True)


def prune_conv2d_conv2d(conv2d_1: nn.Conv2d, conv2d_2: nn.Conv2d) -> None:
    """Two convolutions.

    Args:
        conv2d_1, conv2d_2: the layers.
    """
    prune_conv2d_activation_conv2d(conv2d_1, None, conv2d_2)


def prune_conv2d_activation_conv2d(
    conv2d_1: nn.Conv2d, activation: Step | None, conv2d_2: nn.Conv2d
) -> None:
    """Two convolutions with an activation between them.

    Args:
        conv2d_1, conv2d_2: the layers.
        activation: a module or a function of each element; None is none.
    """
    _chain(conv2d_1, [activation] if activation else [], conv2d_2)


def prune_conv2d_pool_activation_conv2d(
    c1: nn.Conv2d, pool: nn.Module, activation: Step | None, c2: nn.Conv2d
) -> None:
    """Two convolutions with a pool and an activation between them.

    Args:
        c1, c2: the layers.
        pool: a module or a function that pools.
        activation: a module or a function of each element; None is none.
    """
    _chain(c1, [_Pool(pool), *([activation] if activation else [])], c2)


def prune_conv2d_activation_pool_conv2d(
    c1: nn.Conv2d, activation: Step | None, pool: nn.Module, c2: nn.Conv2d
) -> None:
    """Two convolutions with an activation and a pool between them.

    Args:
        c1, c2: the layers.
        activation: a module or a function of each element; None is none.
        pool: a module or a function that pools.
    """
    _chain(c1, [*([activation] if activation else []), _Pool(pool)], c2)


def prune_conv2d_pool_flatten_linear(
    conv2d: nn.Conv2d, pool: nn.Module, flatten: Step | None, linear: nn.Linear
) -> None:
    """A convolution, a pool to a fixed size, and a linear layer of all that it gives.

    Args:
        conv2d, linear: the layers.
        pool: a module that pools to a fixed size.
        flatten: what makes a row of each entry.
    """
    per_row = linear.in_features // conv2d.out_channels
    _chain(conv2d, [_Pool(pool)], linear, per_row=per_row)


def _pruned_gates(lstm: Any, layer: int) -> facula.Tensor | None:
    """Prunes one layer of an LSTM; gives the mask of what it puts out, None where that stays whole."""
    kept: facula.Tensor | None = None
    hidden = lstm.hidden_size
    for kind in ("ih", "hh"):
        name, bias_name = f"weight_{kind}_l{layer}", f"bias_{kind}_l{layer}"
        if _mask_of(lstm, name) is None:
            continue
        mask = _taken_mask(lstm, name)
        weight = getattr(lstm, name).detach()
        gates = [
            (weight[at : at + hidden], mask[at : at + hidden])
            for at in range(0, 4 * hidden, hidden)
        ]
        if kind == "hh":
            # the state is read by every gate; what it keeps of the state is what it keeps of itself
            weight = facula.cat([rows[own][:, own] for rows, own in gates])
            kept = gates[3][1]
        else:
            weight = weight[mask]
        setattr(lstm, name, nn.Parameter(weight))
        if lstm.bias:
            setattr(lstm, bias_name, nn.Parameter(getattr(lstm, bias_name).detach()[mask]))
    return kept


def prune_lstm_output_linear(lstm: nn.LSTM, getitem: object, linear: nn.Linear) -> None:
    """An LSTM, and a linear layer of what it puts out.

    Args:
        lstm, linear: the layers.
        getitem: what takes the output out of the LSTM's results.
    """
    prune_lstm_output_layernorm_linear(lstm, getitem, None, linear)


def prune_lstm_output_layernorm_linear(
    lstm: nn.LSTM, getitem: object, layernorm: nn.LayerNorm | None, linear: nn.Linear
) -> None:
    """An LSTM, and a linear layer of what it puts out, with a layer norm between them.

    Args:
        lstm, linear: the layers.
        getitem: what takes the output out of the LSTM's results.
        layernorm: the norm; None is none.
    """
    if lstm.bidirectional or lstm.proj_size:
        fail(
            NotImplementedError,
            "prune",
            "an LSTM of one direction without projections",
            lstm,
            hint="leave this one out of the config",
        )
    hidden = lstm.hidden_size
    for layer in range(lstm.num_layers):
        lstm.hidden_size = hidden
        kept = _pruned_gates(lstm, layer)
        if kept is None:
            continue
        hidden_now = int(kept.sum())
        if layer + 1 < lstm.num_layers:
            _columns_of_next(lstm, f"weight_ih_l{layer + 1}", kept)
            continue
        lstm.hidden_size = hidden_now
        if layernorm is not None:
            layernorm.normalized_shape = (hidden_now,)
            for name in ("weight", "bias"):
                if getattr(layernorm, name) is not None:
                    setattr(layernorm, name, nn.Parameter(getattr(layernorm, name).detach()[kept]))
        _pruned_columns(linear, kept, None)
    lstm.flatten_parameters()


def _columns_of_next(lstm: Any, name: str, kept: facula.Tensor) -> None:
    """Takes out what the next layer of an LSTM has for outputs that went."""
    if parametrize.is_parametrized(lstm, name):
        held: ParametrizationList = lstm.parametrizations[name]
        held.original = nn.Parameter(held.original.detach()[:, kept])
    else:
        setattr(lstm, name, nn.Parameter(getattr(lstm, name).detach()[:, kept]))
