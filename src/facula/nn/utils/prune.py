"""Pruning: masks on parameters.

Takes a module, a parameter's name and an amount (a number of units, or a fraction).  Gives the
module with the parameter computed as `name_orig * name_mask` before every forward.
Keeps true: masks add up over repeated pruning; `remove` makes the pruned value permanent.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn.utils.forward_pre_hooks import take_off

if TYPE_CHECKING:
    from facula.nn.modules.module import Module


class BasePruningMethod(ABC):
    """A rule that makes masks; subclasses define ``compute_mask(t, default_mask)`` and
    ``PRUNING_TYPE``.

    ``PRUNING_TYPE`` is 'unstructured', 'structured' or 'global'. ``apply(module, name, *args)``
    puts the rule on a parameter, as a hook before its calls; ``prune(t)`` gives a tensor pruned.

    Example:
        >>> class Negative(facula.nn.utils.prune.BasePruningMethod):
        ...     PRUNING_TYPE = "unstructured"
        ...     def compute_mask(self, t, default_mask):
        ...         return default_mask * (t >= 0)
        >>> Negative().prune(facula.tensor([1.0, -2.0]))
        tensor([1., -0.])
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for ``t`` (1 keeps, 0 prunes), on top of ``default_mask``."""

    def apply_mask(self, module: Module) -> Any:
        """The original parameter times its mask."""
        if self._tensor_name is None:
            fail(
                AssertionError,
                "prune",
                f"Module {module} has to be pruned",
                hint="a method's apply(module, name, ...) prunes",
            )
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def _existing(cls, module: Module, name: str) -> tuple[Any, Any]:
        """(key, hook) of the pruning that ``name`` has already."""
        found = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(found) > 1:
            fail(
                AssertionError,
                "prune",
                (
                    f"Avoid adding multiple pruning hooks to the same tensor {name} of module "
                    f"{module}. Use a PruningContainer."
                ),
                hint="a PruningContainer holds several methods of one tensor",
            )
        return found[0] if found else (None, None)

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Make a method from ``args``, and prune ``name`` by it; gives the hook."""
        key, existing = cls._existing(module, name)
        if existing is not None:
            del module._forward_pre_hooks[key]
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            fail(
                AssertionError,
                "prune",
                f"importance_scores should have the same shape as parameter {name} of {module}",
                hint="leave importance_scores out to take the values themselves",
            )
        if existing is None:
            default_mask = facula.ones_like(original)
        else:
            method = _chained(existing, method)
            mask = getattr(module, name + "_mask")
            default_mask = mask.detach().clone(memory_format=facula.contiguous_format)
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            if existing is None:
                module.register_parameter(name + "_orig", original)
                del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if existing is None and name + "_orig" in module._parameters:
                restored = module._parameters.pop(name + "_orig")
                module.register_parameter(name, restored)
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` times the mask that the rule makes for it."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            fail(
                AssertionError,
                "prune",
                "importance_scores should have the same shape as tensor t",
                hint="leave importance_scores out to take the values themselves",
            )
        default_mask = facula.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned value permanent."""
        name = self._tensor_name
        if name is None:
            fail(
                AssertionError,
                "prune",
                f"Module {module} has to be pruned before pruning can be removed",
                hint="prune.is_pruned(module) asks before",
            )
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several rules on one parameter, one after the other; made where a pruned parameter is pruned
    again.

    Args:
        *args: rules of one ``_tensor_name``

    Example:
        >>> layer = facula.nn.Linear(4, 1)
        >>> for _ in range(2):
        ...     _ = facula.nn.utils.prune.l1_unstructured(layer, "weight", amount=1)
        >>> hook, = layer._forward_pre_hooks.values()
        >>> type(hook).__name__, len(hook), int(layer.weight_mask.sum())
        ('PruningContainer', 2, 2)
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple = ()
        single = len(args) == 1 and isinstance(args[0], Iterable)
        for method in args[0] if single else args:
            if not self._pruning_methods:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            fail(
                TypeError,
                "PruningContainer",
                f"{type(method)} is not a BasePruningMethod subclass",
                hint="derive the class from BasePruningMethod",
            )
        if method is not None and self._tensor_name != method._tensor_name:
            fail(
                ValueError,
                "PruningContainer",
                (
                    f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' "
                    f"to PruningContainer {self}. Found '{method._tensor_name}'"
                ),
                hint="make a container for each parameter",
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: core.Tensor, default_mask: core.Tensor) -> Any:
        """The last method's mask, on top of ``default_mask``, over what is not pruned yet."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            kept: Any = mask == 1
        elif kind == "structured":
            if not hasattr(method, "dim"):
                fail(
                    AttributeError,
                    "PruningContainer",
                    (
                        "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute "
                        "`dim` defined."
                    ),
                    hint="set self.dim in __init__ of the method",
                )
            dim = method.dim % t.dim()
            whole = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            kept = [slice(None)] * t.dim()
            kept[dim] = whole
            kept = tuple(kept)
        elif kind == "global":
            kept = (slice(None),) * t.dim()
        else:
            fail(
                ValueError,
                "PruningContainer",
                f"Unrecognized PRUNING_TYPE {kind}",
                hint="'unstructured', 'structured' and 'global' are known",
            )
        mask[kept] = method.compute_mask(t[kept], default_mask=mask[kept]).to(mask.dtype)
        return mask


def _validate_pruning_amount_init(amount: float) -> None:
    if not isinstance(amount, numbers.Real):
        fail(
            TypeError,
            "prune",
            f"Invalid type for amount: {amount}. Must be int or float.",
            hint="a float is a fraction, an int a number of values",
        )
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        fail(
            ValueError,
            "prune",
            (
                f"amount={amount} should either be a float in the range [0, 1] or a "
                "non-negative integer"
            ),
            hint="0.3 prunes three in ten, 3 prunes three values",
        )


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        fail(
            ValueError,
            "prune",
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}",
            hint="a fraction such as 0.3 fits every size",
        )


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    """How many of ``tensor_size`` units to prune."""
    _validate_pruning_amount(amount, tensor_size)
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _chained(existing: Any, method: Any) -> PruningContainer:
    """The methods that prune a tensor, with one more behind them."""
    container = existing
    if not isinstance(container, PruningContainer):
        container = PruningContainer(existing)
    container.add_pruning_method(method)
    return container


class Identity(BasePruningMethod):
    """A rule that prunes nothing.

    The mask is all ones.
    Example:
        >>> facula.nn.utils.prune.Identity().prune(facula.tensor([[3.0, -1.0], [0.5, 0.5]]))
        tensor([[ 3.0000, -1.0000],
                [ 0.5000,  0.5000]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask."""
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prunes single elements, which `_pruned` chooses."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: core.Tensor, default_mask: core.Tensor) -> Any:
        """The mask."""
        count = _compute_nparams_toprune(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=facula.contiguous_format)
        if count:
            mask.view(-1)[self._pruned(t, count)] = 0
        return mask

    def _pruned(self, t: Any, count: int) -> Any:
        """The flat positions of the elements to prune."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """A rule that prunes elements at random.

    Args:
        amount: how many, an int; or which share, a float between 0 and 1

    Example:
        >>> facula.nn.utils.prune.RandomUnstructured(0.5).prune(facula.tensor([[3.0, -1.0], [0.5, 0.5]])).shape
        facula.Size([2, 2])
    """

    def _pruned(self, t: Any, count: int) -> Any:
        return facula.topk(facula.rand_like(t).view(-1), k=count).indices


class L1Unstructured(_Unstructured):
    """A rule that prunes the elements of least magnitude.

    Args:
        amount: how many, an int; or which share, a float between 0 and 1

    Example:
        >>> facula.nn.utils.prune.L1Unstructured(2).prune(facula.tensor([[3.0, -1.0], [0.5, 0.5]]))
        tensor([[ 3., -1.],
                [ 0.,  0.]])
    """

    def _pruned(self, t: core.Tensor, count: int) -> Any:
        return facula.topk(facula.abs(t).view(-1), k=count, largest=False).indices


def _channel_mask(t: core.Tensor, kept: core.Tensor, dim: int) -> Any:
    mask = facula.zeros_like(t)
    where: list = [slice(None)] * t.dim()
    where[dim] = kept
    mask[tuple(where)] = 1
    return mask


def _check_structured(t: core.Tensor, dim: int) -> None:
    if t.dim() <= 1:
        fail(
            ValueError,
            "prune",
            (
                "Structured pruning can only be applied to multidimensional tensors. Found "
                f"tensor of shape {t.shape} with {t.dim()} dims"
            ),
            hint="unstructured methods prune vectors",
        )
    if not -t.dim() <= dim < t.dim():
        fail(
            IndexError,
            "prune",
            f"Invalid index {dim} for tensor of size {t.shape}",
            hint="dim=-1 is the last dimension",
        )


class _Structured(BasePruningMethod):
    """Prunes the channels along ``dim`` that have the least of `_scores`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: core.Tensor, default_mask: core.Tensor) -> Any:
        """The mask."""
        _check_structured(t, self.dim)
        size = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, size)
        if count == 0:
            return default_mask
        kept = facula.topk(self._scores(t), k=size - count).indices
        return _channel_mask(t, kept, self.dim) * default_mask.to(dtype=t.dtype)

    def _scores(self, t: Any) -> Any:
        """A number for each channel."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """A rule that prunes channels at random.

    Args:
        amount: how many, an int; or which share, a float between 0 and 1
        dim: the dimension of the channels

    Example:
        >>> facula.nn.utils.prune.RandomStructured(1, dim=0).prune(facula.tensor([[3.0, -1.0], [0.5, 0.5]])).shape
        facula.Size([2, 2])
    """

    def _scores(self, t: Any) -> Any:
        return facula.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """A rule that prunes the channels with the least norm.

    Args:
        amount: how many, an int; or which share, a float between 0 and 1
        n: the norm's degree, as of `facula.norm`
        dim: the dimension of the channels

    Example:
        >>> facula.nn.utils.prune.LnStructured(1, n=2, dim=0).prune(facula.tensor([[3.0, -1.0], [0.5, 0.5]]))
        tensor([[ 3., -1.],
                [ 0.,  0.]])
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: core.Tensor) -> Any:
        return _compute_norm(t, self.n, self.dim)


class CustomFromMask(BasePruningMethod):
    """A rule that is a given mask.

    Args:
        mask: of the parameter's shape, 0 where it is pruned

    Example:
        >>> mask = facula.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> facula.nn.utils.prune.CustomFromMask(mask).prune(facula.tensor([[3.0, -1.0], [0.5, 0.5]]))
        tensor([[3.0000, -0.0000],
                [0.0000, 0.5000]])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: core.Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            fail(
                AssertionError,
                "prune",
                "mask shape mismatch",
                hint="facula.ones_like(parameter) has the shape",
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def _compute_norm(t: core.Tensor, n: int, dim: int) -> Any:
    dims = [d for d in range(t.dim()) if d != dim % t.dim()]
    return facula.norm(t, p=n, dim=dims)


def identity(module: Module, name: str) -> Any:
    """Puts a mask of ones on a parameter, and prunes nothing.

    Elements are kept in ``<name>_orig``, which is learned; before each call the parameter is that
    times a mask. Further calls prune what the mask leaves.

    Args:
        module: whose parameter it is
        name: its name

    Returns:
        the module, with ``<name>_orig`` and the buffer ``<name>_mask``.

    Example:
        >>> layer = facula.nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(facula.tensor([[3.0, -1.0]]))
        >>> _ = facula.nn.utils.prune.identity(layer, "weight")
        >>> layer.weight_mask
        tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Any:
    """Prunes elements at random.

    Elements are kept in ``<name>_orig``, which is learned; before each call the parameter is that
    times a mask. Further calls prune what the mask leaves.

    Args:
        module: whose parameter it is
        name: its name
        amount: how many, an int; or which share, a float between 0 and 1

    Returns:
        the module, with ``<name>_orig`` and the buffer ``<name>_mask``.

    Raises:
        ValueError: the amount is negative, above 1 as a share, or more than there is.

    Example:
        >>> layer = facula.nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(facula.tensor([[3.0, -1.0]]))
        >>> _ = facula.nn.utils.prune.random_unstructured(layer, "weight", amount=0.5)
        >>> int(layer.weight_mask.sum())
        1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prunes the elements of least magnitude. [Han et al. 2015]

    Elements are kept in ``<name>_orig``, which is learned; before each call the parameter is that
    times a mask. Further calls prune what the mask leaves.

    Args:
        module: whose parameter it is
        name: its name
        amount: how many, an int; or which share, a float between 0 and 1
        importance_scores: what is ranked in place of the values, of their shape

    Returns:
        the module, with ``<name>_orig`` and the buffer ``<name>_mask``.

    Raises:
        ValueError: the amount is negative, above 1 as a share, or more than there is.

    Example:
        >>> layer = facula.nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(facula.tensor([[3.0, -1.0]]))
        >>> _ = facula.nn.utils.prune.l1_unstructured(layer, "weight", amount=1)
        >>> layer.weight_mask
        tensor([[1., 0.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Any:
    """Prunes channels at random.

    Elements are kept in ``<name>_orig``, which is learned; before each call the parameter is that
    times a mask. Further calls prune what the mask leaves.

    Args:
        module: whose parameter it is
        name: its name
        amount: how many, an int; or which share, a float between 0 and 1
        dim: the dimension of the channels

    Returns:
        the module, with ``<name>_orig`` and the buffer ``<name>_mask``.

    Raises:
        ValueError: the amount is negative, above 1 as a share, or more than there is.

    Example:
        >>> layer = facula.nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(facula.tensor([[3.0, -1.0]]))
        >>> _ = facula.nn.utils.prune.random_structured(layer, "weight", amount=1, dim=1)
        >>> int(layer.weight_mask.sum())
        1
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prunes the channels with the least norm. [Han et al. 2015]

    Elements are kept in ``<name>_orig``, which is learned; before each call the parameter is that
    times a mask. Further calls prune what the mask leaves.

    Args:
        module: whose parameter it is
        name: its name
        amount: how many, an int; or which share, a float between 0 and 1
        n: the norm's degree, as of `facula.norm`
        dim: the dimension of the channels
        importance_scores: what is ranked in place of the values, of their shape

    Returns:
        the module, with ``<name>_orig`` and the buffer ``<name>_mask``.

    Raises:
        ValueError: the amount is negative, above 1 as a share, or more than there is.

    Example:
        >>> layer = facula.nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(facula.tensor([[3.0, -1.0]]))
        >>> _ = facula.nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=1)
        >>> layer.weight_mask
        tensor([[1., 0.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: core.Tensor) -> Any:
    """Prunes by a given mask.

    Elements are kept in ``<name>_orig``, which is learned; before each call the parameter is that
    times a mask. Further calls prune what the mask leaves.

    Args:
        module: whose parameter it is
        name: its name
        mask: of the parameter's shape, 0 where it is pruned

    Returns:
        the module, with ``<name>_orig`` and the buffer ``<name>_mask``.

    Example:
        >>> layer = facula.nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(facula.tensor([[3.0, -1.0]]))
        >>> _ = facula.nn.utils.prune.custom_from_mask(layer, "weight", mask=facula.tensor([[0.0, 1.0]]))
        >>> layer.weight_mask
        tensor([[0., 1.]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: object
) -> None:
    """Prunes elements of several parameters together, as if they were one vector.

    Args:
        parameters: (module, name) pairs
        pruning_method: an unstructured subclass of `BasePruningMethod`
        importance_scores: what is ranked in place of the values, a tensor for each pair
        **kwargs: of the method, such as ``amount``

    Example:
        >>> a, b = facula.nn.Linear(2, 1), facula.nn.Linear(2, 1)
        >>> _ = a.weight.data.fill_(0.1), b.weight.data.fill_(5.0)
        >>> pairs, method = [(a, "weight"), (b, "weight")], facula.nn.utils.prune.L1Unstructured
        >>> facula.nn.utils.prune.global_unstructured(pairs, method, amount=2)
        >>> a.weight_mask, b.weight_mask
        (tensor([[0., 0.]]), tensor([[1., 1.]]))
    """
    if not isinstance(parameters, Iterable):
        fail(
            TypeError,
            "global_unstructured",
            "global_unstructured(): parameters is not an Iterable",
            hint="pass pairs: [(module, 'weight'), ...]",
        )
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        fail(
            TypeError,
            "global_unstructured",
            "global_unstructured(): importance_scores must be of type dict",
            hint="{(module, 'weight'): scores} is one",
        )
    flat = facula.cat([scores.get((m, n), getattr(m, n)).reshape(-1) for m, n in pairs])
    masks = facula.cat(
        [getattr(m, n + "_mask", facula.ones_like(getattr(m, n))).reshape(-1) for m, n in pairs]
    )
    final = _mask_of_all(pruning_method, kwargs, flat, masks)
    start = 0
    for module, name in pairs:
        parameter = getattr(module, name)
        count = parameter.numel()
        custom_from_mask(module, name, mask=final[start : start + count].view_as(parameter))
        start += count


def _mask_of_all(pruning_method: Any, kwargs: dict[str, Any], flat: Any, masks: Any) -> Any:
    """What a method leaves of all values together."""
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        fail(
            TypeError,
            "global_unstructured",
            (
                "Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`. Found "
                f"method {pruning_method} of type {method.PRUNING_TYPE}"
            ),
            hint="prune.L1Unstructured is such a method",
        )
    container.add_pruning_method(method)
    return container.compute_mask(flat, masks)


def remove(module: Module, name: str) -> Any:
    """Makes the pruned value of a parameter permanent; the mask goes.

    Args:
        module: whose parameter it is
        name: its name

    Returns:
        the module.

    Raises:
        ValueError: the parameter is not pruned.

    Example:
        >>> layer = facula.nn.utils.prune.identity(facula.nn.Linear(2, 1), "weight")
        >>> [name for name, _ in facula.nn.utils.prune.remove(layer, "weight").named_parameters()]
        ['bias', 'weight']
    """
    if take_off(
        module, lambda hook: isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ):
        return module
    fail(
        ValueError,
        "prune",
        (f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"),
        hint="prune.is_pruned(module) asks before",
    )


def is_pruned(module: Module) -> bool:
    """Whether any parameter of a tree is pruned.

    Args:
        module: the tree

    Example:
        >>> facula.nn.utils.prune.is_pruned(facula.nn.Linear(2, 1))
        False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )
