"""Fusing: layers that follow each other become one.

Takes: a model and names of its layers. Gives: a model in which the first of each list stands for all, the others are
identities. Keeps true: the model computes the same numbers, but for the rounding of a norm that is folded into a
weight.
"""

from __future__ import annotations

import copy
from typing import Any

import facula.nn as nn
from facula.core.errors import fail
from facula.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from facula.nn.utils.parametrize import type_before_parametrizations
from facula.quantization.modules import intrinsic as nni

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def fuse_conv_bn(is_qat: bool, conv: nn.Module, bn: nn.Module) -> Any:
    """A convolution and its norm: in training both, else the convolution with other parameters."""
    _check_mode(conv, bn)
    if is_qat:
        return getattr(nni, f"ConvBn{_dims(conv)}d")(conv, bn)
    return fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: nn.Module, bn: nn.Module, relu: nn.Module) -> Any:
    """The same with relu."""
    _check_mode(conv, bn)
    if is_qat:
        return getattr(nni, f"ConvBnReLU{_dims(conv)}d")(conv, bn, relu)
    return getattr(nni, f"ConvReLU{_dims(conv)}d")(fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A linear layer and its norm."""
    _check_mode(linear, bn)
    return nni.LinearBn1d(linear, bn) if is_qat else fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """A transposed convolution and its norm, not in training."""
    _check_mode(convt, bn)
    if is_qat:
        fail(
            Exception,
            "fuse_modules",
            "Fusing ConvTranspose+BatchNorm not yet supported in QAT.",
            type(convt).__name__,
            hint="fuse in eval mode",
        )
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _dims(conv: nn.Module) -> int:
    return len(conv.kernel_size)


def _check_mode(layer: nn.Module, bn: nn.Module) -> None:
    if layer.training != bn.training:
        fail(
            AssertionError,
            "fuse_modules",
            "Conv and BN both must be in the same mode (train or eval).",
            f"{layer.training} and {bn.training}",
            hint="call model.eval() or model.train() on the whole model",
        )
    if isinstance(layer, _CONVOLUTIONS) and bn.num_features != layer.out_channels:
        fail(
            AssertionError,
            "fuse_modules",
            "Output channel of Conv must match num_features of BatchNorm",
            f"{layer.out_channels} and {bn.num_features}",
            hint="the norm has to follow the convolution",
        )


def _kinds(modules: list[Any]) -> list[Any]:
    return [
        next((base for base in _KNOWN if type(m) is base or isinstance(m, base)), type(m))
        for m in modules
    ]


_KNOWN = (*_CONVOLUTIONS, *_TRANSPOSED, *_NORMS, nn.ReLU, nn.Linear)


def get_fuser_method(modules: Any, is_qat: bool) -> Any:
    """What fuses modules of these types; NotImplementedError where nothing does."""
    kinds = [k if isinstance(k, type) else type_before_parametrizations(k) for k in modules]
    first, rest = kinds[0], kinds[1:]
    norm = bool(rest) and rest[0] in _NORMS
    relu = bool(rest) and rest[-1] is nn.ReLU
    if first in _CONVOLUTIONS and norm and len(kinds) == 2:
        return lambda *m: fuse_conv_bn(is_qat, *m)
    if first in _CONVOLUTIONS and norm and relu and len(kinds) == 3:
        return lambda *m: fuse_conv_bn_relu(is_qat, *m)
    if first in _CONVOLUTIONS and relu and len(kinds) == 2:
        return lambda conv, act: getattr(nni, f"ConvReLU{_dims(conv)}d")(conv, act)
    if first is nn.Linear and norm and len(kinds) == 2:
        return lambda *m: fuse_linear_bn(is_qat, *m)
    if first is nn.Linear and relu and len(kinds) == 2:
        return nni.LinearReLU
    if first in (nn.BatchNorm2d, nn.BatchNorm3d) and relu and len(kinds) == 2:
        return nni.BNReLU2d if first is nn.BatchNorm2d else nni.BNReLU3d
    if first in _TRANSPOSED and norm and len(kinds) == 2:
        return lambda *m: fuse_convtranspose_bn(is_qat, *m)
    fail(
        NotImplementedError,
        "fuse_modules",
        "Cannot fuse modules: a convolution or linear layer, then a norm, then relu, was required",
        [k.__name__ for k in kinds],
        hint="leave out what stands between, or fuse fewer modules",
    )


def fuse_known_modules(mod_list: list[Any], is_qat: bool, additional: Any = None) -> list[Any]:
    """One module for all, and identities in the places of the others."""
    kinds = tuple(map(type_before_parametrizations, mod_list))
    found = (additional or {}).get(kinds)
    if found is None:
        found = get_fuser_method(_kinds(mod_list), is_qat)
        fused = found(*mod_list)
    else:
        fused = found(is_qat, *mod_list)
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    mod_list[-1]._forward_hooks.clear()
    made: list[Any] = [fused]
    for module in mod_list[1:]:
        identity = nn.Identity()
        identity.training = module.training
        made.append(identity)
    return made


def _parent(model: nn.Module, name: str) -> tuple[Any, str]:
    path, _, last = name.rpartition(".")
    return (model.get_submodule(path) if path else model), last


def _fuse(
    model: nn.Module, lists: list[Any], is_qat: bool, inplace: bool, fuser: Any, settings: Any
) -> Any:
    model = model if inplace else copy.deepcopy(model)
    lists = [lists] if lists and all(isinstance(x, str) for x in lists) else lists
    more = (settings or {}).get("additional_fuser_method_mapping")
    for names in lists:
        modules = [model.get_submodule(name) for name in names]
        made = (
            fuse_known_modules(modules, is_qat, more)
            if fuser is None
            else (fuser(modules, is_qat, more))
        )
        for name, module in zip(names, made, strict=True):
            parent, last = _parent(model, name)
            setattr(parent, last, module)
    return model


def fuse_modules(
    model: nn.Module, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The model with each list of layers as one, for inference."""
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: nn.Module, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The same for training: norms stay."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
