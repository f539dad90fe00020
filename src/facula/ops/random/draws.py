"""Operators that draw random numbers.

Takes sizes or tensors, parameters of a distribution, and a generator (the default one when None).
Keeps true: a draw is one request to the generator's stream, so results are the same on every number of
threads; where the stream is PyTorch's, they are PyTorch's. Samples carry no gradient.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index.launch import broadcast_shapes
from facula.ops.random.streams import in_memory_order, of_a_part
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite
from facula.ops.view.create import (
    LIKE,
    OPTIONS,
    check_layout,
    check_size,
    finished,
    like,
    new_tensor,
)

SOURCE = "generator? generator=None"


def _floating(op: str, dtype: core.dtype) -> None:
    if not dtype.is_floating_point and not dtype.is_complex:
        fail(
            NotImplementedError,
            op,
            f"a floating-point dtype was required: \"{op}\" not implemented for '{dtype}'",
            hint=f"draw in float32, then convert with .to({dtype})",
        )


def draw(
    tensor: core.Tensor,
    kind: str,
    a: object = 0.0,
    b: object = 1.0,
    generator: core.Generator | None = None,
) -> Any:
    """Fill a new tensor and return it; complex ones by parts, each with half the variance.

    All random numbers of operators come from here: a function transform may return another tensor,
    with draws for a whole batch.
    """
    transforms = core.interpreters()
    if transforms and transforms[-1].lays_out_draws:
        return transforms[-1].process(draw, (tensor, kind, a, b, generator), {})
    if transforms or core.is_dispatching(tensor):
        if core.by_element(generator) and not tensor.is_contiguous():
            return in_memory_order(draw, tensor, kind, a, b, generator)
    if transforms:
        return transforms[-1].process(draw, (tensor, kind, a, b, generator), {})
    if core.is_dispatching(tensor):
        return _drawn_by_operators(tensor, kind, a, b, generator)
    if tensor.dtype.is_complex:
        core.random_fill(F.view_as_real(tensor), *of_a_part(kind, a, b), generator)
        return tensor
    core.random_fill(tensor, kind, a, b, generator)
    return tensor


def _drawn_by_operators(
    tensor: core.Tensor, kind: str, a: object, b: object, generator: core.Generator | None
) -> Any:
    """The same numbers by calls that dispatch overrides hear of."""
    if tensor.dtype.is_complex:
        part = F.view_as_real(tensor)
        return F.view_as_complex(_drawn_by_operators(part, *of_a_part(kind, a, b), generator))
    if core.by_element(generator):
        where = {"dtype": tensor.dtype, "device": tensor.device}
        return F._stream_fill(tensor.shape, kind, a, b, generator=generator, **where)
    state = F._philox_state(generator=generator, device=tensor.device)
    like = {"dtype": tensor.dtype, "device": tensor.device}
    return F._philox_fill(state, tensor.shape, kind, a, b, **like)


def overwrite(
    self: object, kind: str, a: object, b: object, generator: core.Generator | None
) -> Any:
    """Fill an existing tensor in place, as an in-place operator does."""
    return _written(self, drawn_for(self, kind, a, b, generator))


def _written(self: Any, drawn: object, *parameters: object) -> Any:
    """A tensor with what was drawn for it, unless a function transform keeps it from being written to."""
    for transform in core.interpreters():
        transform.check_overwritten(self, parameters)
    return self.copy_(drawn)


def check_parameters(*values: object) -> None:
    """Raise where a function transform draws once for entries whose parameters differ."""
    for transform in core.interpreters():
        transform.check_parameters(values)


def drawn_for(self: Any, kind: str, a: object, b: object, generator: core.Generator | None) -> Any:
    """A new tensor with what would be drawn into an existing one."""
    transforms = core.interpreters()
    if transforms and transforms[-1].lays_out_draws:
        return draw(self, kind, a, b, generator)
    if core.by_element(generator) and not self.is_contiguous():
        return in_memory_order(draw, self, kind, a, b, generator)
    fresh = core.empty(self.shape, dtype=self.dtype, device=self.device)
    return draw(fresh, kind, a, b, generator)


@composite(f"rand(int[]... size, *, {SOURCE}, {LIKE}) -> Tensor", names=("rand",), out_cast=True)
def rand(size, generator, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Uniform numbers in [0, 1)."""
    check_layout("rand", layout)
    check_size("rand", size)
    tensor = new_tensor(size, dtype, device, memory_format)
    _floating("rand", tensor.dtype)
    return finished(draw(tensor, "uniform", 0.0, 1.0, generator), requires_grad)


@composite(f"randn(int[]... size, *, {SOURCE}, {LIKE}) -> Tensor", names=("randn",), out_cast=True)
def randn(size, generator, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Normal numbers with mean 0 and variance 1."""
    check_layout("randn", layout)
    check_size("randn", size)
    tensor = new_tensor(size, dtype, device, memory_format)
    _floating("randn", tensor.dtype)
    return finished(draw(tensor, "normal", 0.0, 1.0, generator), requires_grad)


@composite(
    f"randint(any low=None, any high=None, any size=None, *, {SOURCE}, {OPTIONS}) -> Tensor",
    names=("randint",),
    overload="size=low",
    file_arguments={"default.low": "high", "default.high": "size"},
    out_cast=True,
)
def randint(low, high, size, generator, dtype, layout, device, pin_memory, requires_grad):
    """Whole numbers in [low, high), called as (high, size) or (low, high, size).

    Example:
        >>> _ = facula.manual_seed(0)
        >>> facula.randint(3, 6, (5,)).shape
        facula.Size([5])
    """
    check_layout("randint", layout)
    if size is None:
        if isinstance(high, (tuple, list)):
            low, high, size = 0, low, high
        else:
            fail(
                TypeError,
                "randint",
                "a size was required",
                f"low={low}, high={high}",
                hint="facula.randint(low, high, size=(3,)) draws three integers",
            )
    elif high is None:
        low, high = 0, low
    if high is None:
        fail(
            TypeError, "randint", "the argument 'high' was required", "none", "randint(high, size)"
        )
    low = 0 if low is None else low
    check_size("randint", size)
    low, high = _index(low), _index(high)
    dtype = core.int64 if dtype is None else dtype
    _check_integers("randint", low, high, dtype)
    tensor = core.empty(size, dtype=dtype, device=device)
    return finished(_integers(tensor, low, high, generator), requires_grad)


def _index(value: object) -> int:
    number: Any = value.item() if isinstance(value, core.Tensor) else value
    return int(number)


def _check_integers(op: str, low: int, high: int, dtype: core.dtype) -> None:
    # lazily: what is refused takes many words
    from facula.ops.random.ranges import check_integers

    check_integers(op, low, high, dtype)


def _integers(tensor: core.Tensor, low: int, high: int, generator: core.Generator | None) -> Any:
    if tensor.dtype.is_floating_point:
        # lazily: for narrow dtypes only
        from facula.ops.random.ranges import within

        low, high = within(low, high, tensor.dtype)
    if core.by_element(generator):
        return draw(tensor, "randint", low, high, generator)
    if tensor.dtype.is_floating_point or tensor.dtype is core.bool_:
        whole = core.empty(tensor.shape, dtype=core.int64, device=tensor.device)
        drawn = draw(whole, "randint", low, high, generator)
        # under `vmap` there may be numbers for each entry, which `tensor` cannot hold
        return drawn.to(tensor.dtype) if core.interpreters() else tensor.copy_(drawn)
    return draw(tensor, "randint", low, high, generator)


@composite(
    f"rand_like(Tensor self, *, {SOURCE}, {LIKE}) -> Tensor",
    names=("rand_like",),
    out=False,
    elementwise=True,
)
def rand_like(self, generator, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Uniform numbers in [0, 1) in the shape and dtype of a tensor."""
    tensor = like(self, dtype, device, memory_format)
    _floating("rand_like", tensor.dtype)
    return finished(draw(tensor, "uniform", 0.0, 1.0, generator), requires_grad)


@composite(
    f"randn_like(Tensor self, *, {SOURCE}, {LIKE}) -> Tensor",
    names=("randn_like",),
    out=False,
    elementwise=True,
)
def randn_like(self, generator, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Normal numbers with mean 0 and variance 1 in the shape and dtype of a tensor."""
    tensor = like(self, dtype, device, memory_format)
    _floating("randn_like", tensor.dtype)
    return finished(draw(tensor, "normal", 0.0, 1.0, generator), requires_grad)


@composite(
    f"randint_like(Tensor self, any low=None, any high=None, *, {SOURCE}, {LIKE}) -> Tensor",
    names=("randint_like",),
    overload="high=low_dtype",
    file_arguments={"default.low": "high"},
    numbers=("low", "high"),
    out=False,
)
def randint_like(
    self, low, high, generator, dtype, layout, device, pin_memory, requires_grad, memory_format
):
    """Whole numbers in [low, high) in the shape and dtype of a tensor; one number is `high`.

    Example:
        >>> facula.randint_like(facula.zeros(2, 3), 10).dtype
        facula.float32
    """
    if high is None:
        low, high = 0, low
    if high is None:
        fail(
            TypeError,
            "randint_like",
            "the argument 'high' was required",
            "none",
            hint="facula.randint_like(x, high) draws from 0 to high - 1",
        )
    tensor = like(self, dtype, device, memory_format)
    low, high = _index(0 if low is None else low), _index(high)
    _check_integers("randint_like", low, high, tensor.dtype)
    return finished(_integers(tensor, low, high, generator), requires_grad)


def _most_of_permutation(dtype: core.dtype) -> float:
    """Up to how many places a dtype tells from each other."""
    if dtype.is_floating_point:
        return 2 / core.finfo(dtype).eps + 1
    return 2 if dtype is core.bool else core.iinfo(dtype).max + 1


@composite(f"randperm(int n, *, {SOURCE}, {OPTIONS}) -> Tensor", names=("randperm",), out_cast=True)
def randperm(n, generator, dtype, layout, device, pin_memory, requires_grad):
    """A random order of 0 .. n - 1."""
    check_size("randperm", (n,))
    dtype = core.int64 if dtype is None else dtype
    if n > _most_of_permutation(dtype):
        fail(
            RuntimeError,
            "randperm",
            f"at most {_most_of_permutation(dtype)} elements were required: n cannot be greater than that for {dtype}",
            n,
            hint="int64, the default, holds every place",
        )
    whole = core.empty((n,), dtype=core.int64, device=device)
    whole = draw(whole, "permutation", 0, n, generator)
    return finished(whole if dtype is core.int64 else whole.to(dtype), requires_grad)


@composite(
    f"normal_(Tensor self, float mean=0.0, float std=1.0, *, {SOURCE}) -> Tensor",
    names=("Tensor.normal_",),
    out=False,
)
def normal_(self, mean, std, generator):
    """Overwrite with normal numbers."""
    if std < 0:
        fail(
            RuntimeError,
            "normal_",
            "normal expects std >= 0.0",
            f"std {std}",
            hint=f"std={-std} draws from the same distribution",
        )
    _floating("normal_", self.dtype)
    return overwrite(self, "normal", mean, std, generator)


@composite(
    f"uniform_(Tensor self, float from=0.0, float to=1.0, *, {SOURCE}) -> Tensor",
    names=("Tensor.uniform_",),
    out=False,
)
def uniform_(self, from_, to, generator):
    """Overwrite with uniform numbers in [from, to)."""
    if from_ > to:
        fail(
            RuntimeError,
            "uniform_",
            f"uniform_ expects to return a [from, to) range, but found from={from_:g} > to={to:g}",
            f"from={from_} > to={to}",
            hint=f"uniform_({to}, {from_}) has the ends in order",
        )
    _floating("check_uniform_bounds", self.dtype)
    return overwrite(self, "uniform", from_, to, generator)


@composite(
    f"exponential_(Tensor self, float lambd=1.0, *, {SOURCE}) -> Tensor",
    names=("Tensor.exponential_",),
    out=False,
)
def exponential_(self, lambd, generator):
    """Overwrite with exponential numbers of rate `lambd`."""
    if lambd <= 0:
        fail(
            RuntimeError,
            "exponential_",
            f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}",
            f"lambda={lambd}",
            hint="lambd is the rate, 1 / the mean of the distribution",
        )
    _floating("exponential_", self.dtype)
    return overwrite(self, "exponential", lambd, 1.0, generator)


@composite(
    f"cauchy_(Tensor self, float median=0.0, float sigma=1.0, *, {SOURCE}) -> Tensor",
    names=("Tensor.cauchy_",),
    out=False,
)
def cauchy_(self, median, sigma, generator):
    """Overwrite with Cauchy numbers."""
    if sigma <= 0:
        fail(
            RuntimeError,
            "cauchy_",
            f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}",
            f"sigma={sigma}",
            hint="sigma is a width: half of that at half of the maximum",
        )
    _floating("cauchy_", self.dtype)
    return overwrite(self, "cauchy", median, sigma, generator)


@composite(
    f"log_normal_(Tensor self, float mean=1.0, float std=2.0, *, {SOURCE}) -> Tensor",
    names=("Tensor.log_normal_",),
    out=False,
)
def log_normal_(self, mean, std, generator):
    """Overwrite with exponentials of normal numbers of that mean and deviation."""
    if std <= 0:
        fail(
            RuntimeError,
            "log_normal_",
            f"log_normal_ expects std > 0.0, but found std={std:g}",
            f"std={std}",
            hint="mean and std are those of the logarithm of what is drawn",
        )
    _floating("log_normal_", self.dtype)
    return overwrite(self, "log_normal", mean, std, generator)


@composite(
    f"geometric_(Tensor self, float p, *, {SOURCE}) -> Tensor",
    names=("Tensor.geometric_",),
    out=False,
)
def geometric_(self, p, generator):
    """Overwrite with the number of trials up to the first success, each of probability `p`."""
    if not 0 < p < 1:
        fail(
            RuntimeError,
            "geometric_",
            f"geometric_ expects p to be in (0, 1), but got p={p:g}",
            f"p={p}",
            hint="p is the probability of success of one trial",
        )
    return overwrite(self, "geometric", p, 1.0, generator)


#: consecutive whole numbers that a floating dtype holds exactly reach to here
EXACT = {"f32": 1 << 24, "f64": 1 << 53, "f16": 1 << 11, "bf16": 1 << 8, "b8": 1}


def _random_range(dtype: core.dtype) -> tuple[int, int]:
    """The range of `random_` without arguments: what the dtype holds exactly, from 0."""
    if dtype.code in EXACT:
        return 0, EXACT[dtype.code] + 1
    bits = 8 * dtype.itemsize - int(dtype.is_signed)
    return 0, 1 << min(bits, 63)


@composite(
    f"random_(Tensor self, any from=None, any? to=-9223372036854775808, *, {SOURCE}) -> Tensor",
    names=("Tensor.random_",),
    out=False,
)
def random_(self, from_, to, generator):
    """Overwrite with whole numbers: all of the dtype's, [0, from), [from, to), or from `from` on."""
    alone = to == -(1 << 63)  # not given: no range ends there
    whole = from_ is None and (alone or to is None)
    if whole:
        low, high = _random_range(self.dtype)
    elif to is None:
        low, high = from_, _random_range(self.dtype)[1]
    elif alone:
        low, high = 0, from_
    else:
        low, high = 0 if from_ is None else from_, to
    _check_integers("random_", low, high, self.dtype)
    if high - low == 1 << 64:
        low, high = 0, 1 << 64  # every word is one of the numbers
    if core.by_element(generator):
        kind = "whole" if whole else "randint"
        if not whole and self.dtype.is_floating_point:
            # lazily: for narrow dtypes only
            from facula.ops.random.ranges import within

            low, high = within(low, high, self.dtype)
        return _written(self, drawn_for(self, kind, low, high, generator))
    fresh = core.empty(self.shape, dtype=self.dtype, device=self.device)
    return _written(self, _integers(fresh, low, high, generator))


def _bernoulli_for(tensor: core.Tensor, p: core.Tensor, generator: core.Generator | None) -> Any:
    if isinstance(p, core.Tensor):
        if p.device.type == "cpu" and p.numel() and batch_forms.anywhere(~((p >= 0) & (p <= 1))):
            fail(
                RuntimeError,
                "bernoulli",
                "Expected p_in >= 0 && p_in <= 1",
                "probabilities outside",
                hint="x.sigmoid() makes probabilities of scores",
            )
        wide = p.detach().expand(tensor.shape).contiguous()
        if wide.dtype.code not in ("f32", "f64"):
            wide = wide.to(core.float32)
        return drawn_for(tensor, "bernoulli", wide, 1.0, generator)
    if not 0 <= p <= 1:
        fail(
            RuntimeError,
            "bernoulli_",
            "bernoulli_ expects p to be in [0, 1]",
            f"p={p}",
            hint="p is a probability; p=0.5 is a fair coin",
        )
    return drawn_for(tensor, "bernoulli", float(p), 1.0, generator)


@composite(
    f"bernoulli(Tensor self, any p=None, *, {SOURCE}) -> Tensor",
    overload="p=p",
    names=("bernoulli", "Tensor.bernoulli"),
    out_cast=True,
)
def bernoulli(self, p, generator):
    """0 or 1, the latter with probability `p`, or the tensor's own values as probabilities."""
    check_parameters(self, p)
    fresh = core.empty(self.shape, dtype=self.dtype, device=self.device)
    if p is None:
        _floating("bernoulli", self.dtype)
        p = self
    result = _bernoulli_for(fresh, p, generator)
    # the gradient of a sample is defined as zero
    return result + self * 0 if self.requires_grad and core.is_grad_enabled() else result


@composite(
    f"bernoulli_(Tensor self, any p=0.5, *, {SOURCE}) -> Tensor",
    names=("Tensor.bernoulli_",),
    out=False,
)
def bernoulli_(self, p, generator):
    """Overwrite with 0 or 1, the latter with probability `p` (a number or a tensor)."""
    return _written(self, _bernoulli_for(self, p, generator), p)


def _check_deviation(std: Any) -> None:
    if not isinstance(std, core.Tensor):
        if std < 0:
            fail(
                RuntimeError,
                "normal",
                "normal expects std >= 0.0",
                f"std {std}",
                hint=f"std={-std} draws from the same distribution",
            )
    elif std.dtype.is_complex:
        fail(
            RuntimeError,
            "normal",
            "normal expects standard deviation to be non-complex",
            std.dtype,
            hint="std.abs() is real",
        )
    elif std.device.type == "cpu" and std.numel() and batch_forms.anywhere(~(std >= 0)):
        fail(
            RuntimeError,
            "normal",
            "normal expects all elements of std >= 0.0",
            hint="std.abs() has no negative elements; std.isnan() finds nan",
        )


@composite(
    f"normal(any mean=0.0, any std=1.0, any size=None, *, {SOURCE}, {OPTIONS}) -> Tensor",
    names=("normal",),
    out_cast=True,
)
def normal(mean, std, size, generator, dtype, layout, device, pin_memory, requires_grad):
    """Normal numbers; `mean` and `std` are tensors that broadcast, or numbers (also tensors
    without dimensions) together with a size.

    Example:
        >>> facula.normal(facula.zeros(3), 1.0).shape
        facula.Size([3])
    """
    if size is not None:
        mean, std = _plain_number("mean", mean), _plain_number("std", std)
    tensors = [x for x in (mean, std) if isinstance(x, core.Tensor)]
    check_parameters(*tensors)
    _check_deviation(std)
    if not tensors:
        if size is None:
            fail(
                TypeError,
                "normal",
                "a size was required for numbers as mean and std",
                "none",
                hint="facula.normal(0.0, 1.0, size=(3,)) draws three numbers",
            )
        tensor = core.empty(size, dtype=dtype, device=device)
        _floating("normal", tensor.dtype)
        return finished(draw(tensor, "normal", mean, std, generator), requires_grad)
    if len(tensors) == 2:
        shape = broadcast_shapes("normal", mean.shape, std.shape)
        kind = core.promote_types(mean.dtype, std.dtype)
    else:
        shape, kind = tensors[0].shape, tensors[0].dtype
    _floating("normal", kind if dtype is None else dtype)
    spread = std if len(tensors) == 1 and tensors[0] is mean else 1.0
    fresh = draw(
        core.empty(shape, dtype=kind, device=tensors[0].device), "normal", 0.0, spread, generator
    )
    if isinstance(std, core.Tensor):
        fresh = fresh * std.detach()
    if isinstance(mean, core.Tensor):
        return fresh + mean.detach()
    return fresh + core.tensor(mean, dtype=kind).item()  # a narrow dtype rounds the number first


def _plain_number(name: str, value: Any) -> Any:
    """The number of a tensor without dimensions, next to a size; raises for tensors that have some."""
    if not isinstance(value, core.Tensor):
        return value
    if value.dim() or value.requires_grad:
        fail(
            TypeError,
            "normal",
            f"a number as {name} was required next to a size (received an invalid combination of "
            "arguments)",
            f"a tensor of shape {tuple(value.shape)}"
            + (" that requires a gradient" if value.requires_grad else ""),
            hint="without the size, the tensors' shapes are broadcast: facula.normal(mean, std)",
        )
    return value.item()


def _check_multinomial(self: core.Tensor, num_samples: int, replacement: bool) -> None:
    """Raise for what is no table of probabilities, or for too many draws."""
    if self.dim() not in (1, 2):
        fail(
            RuntimeError,
            "multinomial",
            "prob_dist must be 1 or 2 dim",
            self.dim(),
            hint="each row is a distribution: x.flatten(0, -2) merges leading dimensions",
        )
    if not self.dtype.is_floating_point:
        fail(
            RuntimeError,
            "multinomial",
            "multinomial only supports floating-point dtypes for input",
            self.dtype,
            hint="convert it with .float()",
        )
    if num_samples <= 0:
        fail(
            RuntimeError,
            "multinomial",
            "cannot sample n_sample <= 0 samples",
            num_samples,
            hint="num_samples=1 draws one index of each row",
        )
    size = self.shape[-1]
    if not replacement and num_samples > size:
        fail(
            RuntimeError,
            "multinomial",
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            f"{num_samples} > {size}",
            hint=f"pass replacement=True, or draw at most {size}",
        )


@composite(
    f"multinomial(Tensor self, int num_samples, bool replacement=False, *, {SOURCE}) -> Tensor"
)
def multinomial(self, num_samples, replacement, generator):
    """Class numbers drawn with probabilities proportional to each row's weights.

    With replacement by inversion of the running sum; without by the largest w / e, e exponential.
    [Efraimidis 2006]"""
    _check_multinomial(self, num_samples, replacement)
    check_parameters(self)
    weights = self.detach()
    weights = weights if weights.dtype is core.float64 else weights.to(core.float32)
    if self.device.type == "meta":
        return core.empty((*self.shape[:-1], num_samples), dtype=core.int64, device=self.device)
    if batch_forms.anywhere(~((weights >= 0) & (weights < float("inf")))):
        fail(
            RuntimeError,
            "multinomial",
            "probability tensor contains either `inf`, `nan` or element < 0 (invalid multinomial "
            "distribution)",
            hint="x.softmax(-1) makes probabilities of scores",
        )
    total = weights.sum(-1, keepdim=True)
    if batch_forms.anywhere(~(total > 0)):
        fail(
            RuntimeError,
            "multinomial",
            "invalid multinomial distribution (sum of probabilities <= 0)",
            hint="every row needs a positive element",
        )
    if core.by_element(generator):
        return _multinomial_in_order(self.detach(), num_samples, replacement, generator)
    if not replacement:
        noise = draw(
            core.empty(weights.shape, dtype=weights.dtype), "exponential", 1.0, 1.0, generator
        )
        return F.topk((weights / noise).masked_fill(weights == 0, -1.0), num_samples, -1)[1]
    running = weights.to(core.float64).cumsum(-1)
    shape = (*self.shape[:-1], num_samples)
    places = draw(core.empty(shape, dtype=core.float64), "uniform", 0.0, 1.0, generator)
    found = F.searchsorted(running, places * running.narrow(-1, -1, 1), right=True)
    last = (weights > 0).to(core.int64).cumsum(-1).argmax(-1, keepdim=True)
    return F.minimum(found, last)


def _multinomial_in_order(
    weights: core.Tensor, num_samples: int, replacement: bool, generator: core.Generator | None
) -> Any:
    """What PyTorch draws: by the running sum, or by the largest of w / e in the dtype of the weights."""
    if not replacement or num_samples == 1:
        noise = core.empty(weights.shape, dtype=weights.dtype, device=weights.device)
        keys = weights / draw(noise, "exponential", 1.0, 1.0, generator)
        if num_samples == 1:
            return keys.argmax(-1, keepdim=True)
        return F.topk(keys, num_samples, -1)[1]
    single = weights.dtype is not core.float64
    return F._multinomial_draws(weights.to(core.float64), num_samples, single, generator)
