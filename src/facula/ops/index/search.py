"""Operators that search and count: `searchsorted`, `bucketize`, `bincount`, histograms, `one_hot`,
`isin`.

Takes values and sorted boundaries, or class numbers; gives places and counts. Keeps true: results
are int64 unless
`out_int32`, counts of weights have the weights' dtype; nothing here has a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.forms.value_checks import checked, is_traced
from facula.ops.index import launch
from facula.ops.table.batch_forms import innermost
from facula.ops.table.registry import F, composite, operator, return_type_of

SEARCHED = {
    "f32": "f32",
    "f64": "f64",
    "i64": "i64",
    "i32": "i32",
    "i16": "i32",
    "i8": "i32",
    "u8": "i32",
}
SEARCHED |= {"u16": "i32", "u32": "i64", "b8": "i32", "f16": "f32", "bf16": "f32"}


def searchable(op: str, x: core.Tensor) -> Any:
    """The tensor, contiguous, in a dtype that search kernels know."""
    if x.dtype is core.uint64:  # its order is that of int64 with the sign bit flipped
        return (x.view(core.int64) ^ launch.int_limits(core.int64)[0]).contiguous()
    code = SEARCHED.get(x.dtype.code)
    if code is None:
        fail(
            RuntimeError,
            op,
            "a real dtype was required",
            x.dtype,
            hint="convert it with .float(); x.abs() makes real numbers of complex ones",
        )
    wanted = {"f32": core.float32, "f64": core.float64, "i64": core.int64, "i32": core.int32}[code]
    return x.to(wanted).contiguous()


def _check_side(sorted_sequence: core.Tensor, right: bool, side: Any, sorter: Any) -> None:
    if side not in (None, "left", "right"):
        fail(
            RuntimeError,
            "searchsorted",
            "side can only be 'left' or 'right'",
            side,
            hint="side='right' is the same as right=True, 'left' is the default",
        )
    if side == "left" and right:
        fail(
            RuntimeError,
            "searchsorted",
            "side and right can't be set to opposites",
            f"side={side}, right={right}",
            hint="leave one of them out: side='right' is the same as right=True",
        )
    if sorter is not None and (
        sorter.shape != sorted_sequence.shape or sorter.dtype is not core.int64
    ):
        fail(
            RuntimeError,
            "searchsorted",
            "sorter must be int64 in the shape of the boundaries",
            f"{sorter.dtype} of shape {list(sorter.shape)}",
            hint="facula.argsort(sorted_sequence) makes one",
        )


@operator(
    "searchsorted(Tensor sorted_sequence, Operand self, *, bool out_int32=False, bool "
    "right=False, str? side=None, "
    "Tensor? sorter=None) -> Tensor",
    names=("searchsorted",),
    overload="self:Tensor=Tensor, Scalar",
)
class searchsorted:
    """Where values would go into sorted rows: the first place whose element is >= the value, or >
    it when `right`.
    """

    def meta(sorted_sequence, self, out_int32, right, side, sorter):
        _check_side(sorted_sequence, right, side, sorter)
        shape = self.shape if isinstance(self, core.Tensor) else ()
        if sorted_sequence.dim() == 0 and len(shape):
            fail(
                RuntimeError,
                "searchsorted",
                "boundaries should have positive dimension",
                "0 dimensions",
                hint="sorted_sequence.reshape(1) has one",
            )
        if sorted_sequence.dim() != 1 and tuple(sorted_sequence.shape[:-1]) != tuple(shape[:-1]):
            fail(
                RuntimeError,
                "searchsorted",
                "boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                "boundaries tensor and input value "
                "tensor must match",
                f"boundaries {list(sorted_sequence.shape)} and values {list(shape)}",
                hint="give values a row for each row of boundaries, or one row of boundaries for "
                "all",
            )
        dtype = core.int32 if out_int32 else core.int64
        return core.empty(shape, dtype=dtype, device=sorted_sequence.device)

    def cpu(out, sorted_sequence, self, out_int32, right, side, sorter):
        if not isinstance(self, core.Tensor):
            self = F.scalar_tensor(self)
        common = core.promote_types(sorted_sequence.dtype, self.dtype)
        boundaries = searchable("searchsorted", sorted_sequence.to(common))
        values = searchable("searchsorted", self.to(common))
        result = out if not out_int32 else core.empty(out.shape, dtype=core.int64)
        per_row = boundaries.shape[-1] if boundaries.dim() else 1
        one_row = int(boundaries.dim() <= 1)
        if sorter is not None:
            launch.check_bounds(
                "searchsorted", sorter, per_row, sorter.dim() - 1, RuntimeError, negative=False
            )
            sorter = sorter.contiguous()
        if out.numel():
            core.kernel("searchsorted:" + boundaries.dtype.code)(
                (result, boundaries, values, sorter),
                (
                    per_row,
                    values.shape[-1] if values.dim() else 1,
                    one_row,
                    int(right or side == "right"),
                ),
                (),
                total=values.numel(),
                grain=4096,
            )
        if result is not out:
            out.copy_(result)

    def vmap(batch, sorted_sequence, self, out_int32, right, side, sorter):
        how = {"out_int32": out_int32, "right": right, "side": side}
        values = self if isinstance(self, core.Tensor) else F.scalar_tensor(self)
        if sorted_sequence.dim() == 0:
            return NotImplemented
        if sorted_sequence.dim() > 1:  # rows of both, in one more dimension
            rows, values, order = (batch.full(x) for x in (sorted_sequence, values, sorter))
            return F.searchsorted(rows, values, sorter=order, **how)
        if not batch.has(sorted_sequence) and not batch.has(sorter):
            return F.searchsorted(sorted_sequence, batch.front(values), sorter=sorter, **how)
        rows, values, order = (batch.full(x) for x in (sorted_sequence, values, sorter))
        found = F.searchsorted(rows, values.reshape(batch.size, -1), sorter=order, **how)
        return found.reshape(values.shape)

    def samples(S):
        yield (S.sorted(6), S(3, 4)), {"right": True}


@composite(
    "bucketize(Operand self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> "
    "Tensor",
    names=("bucketize",),
    overload="self:Tensor=Tensor, Scalar",
)
def bucketize(self, boundaries, out_int32, right):
    """The bucket of each value among one row of sorted boundaries, as `searchsorted` gives it."""
    if boundaries.dim() != 1:
        fail(
            RuntimeError,
            "bucketize",
            "boundaries tensor must be 1 dimension",
            f"dim({boundaries.dim()})",
            hint="boundaries.reshape(-1) is 1-d; searchsorted() takes rows of boundaries",
        )
    return F.searchsorted(boundaries, self, out_int32=out_int32, right=right)


def _check_counted(self: Any, weights: core.Tensor | None, minlength: int) -> None:
    if self.dtype.is_floating_point or self.dtype.is_complex or self.dtype is core.bool_:
        fail(
            NotImplementedError,
            "bincount",
            "an integer dtype was required",
            self.dtype,
            hint="convert it with .long()",
        )
    core.refuse_unsigned("bincount", self)
    if minlength < 0:
        fail(
            RuntimeError,
            "bincount",
            "minlength should be >= 0",
            minlength,
            hint="leave it out to size the result by the largest value",
        )
    count = self.numel()
    if self.dim() != 1 or (count and self.min().item() < 0):
        fail(
            RuntimeError,
            "bincount",
            "bincount only supports 1-d non-negative integral inputs",
            f"{self.dim()}-d",
            hint="x.flatten() is 1-d; x - x.min() has no negative values",
        )
    if count and weights is not None and (weights.dim() != 1 or weights.numel() != count):
        fail(
            RuntimeError,
            "bincount",
            "weights should be 1-d and have the same length as input",
            list(weights.shape),
            hint=f"give weights of shape [{count}]",
        )


@operator("bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", out=False)
class bincount:
    """How often each value of a vector of non-negative integers occurs, or the sum of its
    weights.
    """

    dynamic = True

    def counted(count, self, weights, minlength):
        dtype = core.int64
        if weights is not None:
            dtype = core.float32 if weights.dtype is core.float32 else core.float64
        return core.empty((count,), dtype=dtype, device=self.device)

    def cpu(self, weights, minlength):
        _check_counted(self, weights, minlength)
        count = self.numel()
        if not count:
            return F.zeros((minlength,), dtype=core.int64)
        bins = max(minlength, int(self.max().item()) + 1)
        if weights is None:
            result = core.empty((bins,), dtype=core.int64)
            if bins:
                values = self.to(core.int64).contiguous()
                core.kernel("bincount")((result, values), (count, bins), ())
            return result
        source = weights if weights.dtype is core.float32 else weights.to(core.float64)
        result = core.empty((bins,), dtype=source.dtype)
        result.zero_()
        index = self.to(core.int64)
        launch.scatter(
            "add", result, source, index, 0, (count,), index.stride(), (1,), source.stride(), bins
        )
        return result


def _edges(op: str, self: core.Tensor, low: float, high: float) -> tuple[float, float]:
    """The range of a histogram; the data's own when both ends are 0."""
    if low == high == 0 and self.numel():
        low, high = float(self.min().item()), float(self.max().item())
    if op == "histogram" and not self.numel() and low == high == 0:
        return 0.0, 1.0
    if low == high:
        low, high = (
            low - 0.5 if op == "histogram" else low - 1,
            high + 0.5 if op == "histogram" else high + 1,
        )
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        fail(
            RuntimeError,
            op,
            f"range of [{low}, {high}] is not finite",
            hint="give finite ends; x[x.isfinite()] drops inf and nan",
        )
    if low > high:
        fail(
            RuntimeError,
            op,
            "max must be larger than min",
            f"[{low}, {high}]",
            hint="exchange the two ends",
        )
    return low, high


def _count(
    self: core.Tensor, bins: int, edges: core.Tensor | None, weight: Any, low: float, high: float
) -> Any:
    counts = core.empty((bins,), dtype=self.dtype)
    counts.zero_()
    if weight is not None:
        weight = weight.reshape(-1).to(self.dtype).contiguous()
    core.kernel("histogram:" + self.dtype.code)(
        (counts, self.reshape(-1).contiguous(), edges, weight),
        (self.numel(), bins),
        (float(low), float(high)),
    )
    return counts


def _check_float(op: str, self: core.Tensor) -> Any:
    if self.dtype is not core.float32 and self.dtype is not core.float64:
        if (
            not self.dtype.is_floating_point
            or self.dtype.code not in ("f16", "bf16")
            or op != "histc"
        ):
            fail(
                NotImplementedError,
                op,
                "float32 or float64 was required",
                self.dtype,
                hint="convert it with .float()",
            )
    return self


@operator("histc(Tensor self, int bins=100, Number min=0, Number max=0) -> Tensor")
class histc:
    """Counts of values in `bins` equal bins from `min` to `max` (the data's range when both
    are 0).
    """

    def meta(self, bins, min, max):
        _check_float("histc", self)
        if bins <= 0:
            fail(
                RuntimeError,
                "histc",
                "bins must be > 0",
                bins,
                hint="bins=10 makes ten intervals of equal width",
            )
        if min > max:
            fail(
                RuntimeError,
                "histc",
                "max must be larger than min",
                f"[{min}, {max}]",
                hint="exchange min and max",
            )
        return core.empty((bins,), dtype=self.dtype, device=self.device)

    def cpu(out, self, bins, min, max):
        work = self if self.dtype.code in ("f32", "f64") else self.to(core.float32)
        low, high = _edges("histc", work, float(min), float(max))
        out.copy_(_count(work, bins, None, None, low, high))

    def samples(S):
        yield (S(30), 5, -1.0, 1.0), {}


def _equal_bins(x: core.Tensor, bins: int, range: Sequence[float] | None) -> core.Tensor:
    """The edges of bins of equal width, over a range or from the least number to the greatest."""
    if bins <= 0:
        fail(
            RuntimeError,
            "histogram",
            "bins must be > 0",
            bins,
            hint="bins=10 makes ten intervals of equal width",
        )
    if range is not None and len(range) != 2:
        fail(
            RuntimeError,
            "histogram",
            "a range of two numbers was required",
            list(range),
            hint="range=(0.0, 1.0) counts from 0 to 1",
        )
    low, high = _edges("histogram", x, *(range or (0.0, 0.0)))
    return F.linspace(low, high, bins + 1, dtype=x.dtype)


@composite(
    "histogram(Tensor self, any bins=100, *, float[]? range=None, Tensor? weight=None, bool "
    "density=False) -> (Tensor hist, Tensor bin_edges)",
    vmap="entries",
)
def histogram(self, bins, range, weight, density):
    """Counts (or summed weights) per bin, and the edges; `bins` is a number of equal bins or a
    vector of edges.

    Example:
        >>> hist, edges = facula.histogram(facula.tensor([1.0, 2.0, 2.0, 4.0]), bins=3)
        >>> hist
        tensor([1., 2., 1.])
        >>> edges
        tensor([1., 2., 3., 4.])
    """
    _check_float("histogram", self)
    if weight is not None and weight.shape != self.shape:
        fail(
            RuntimeError,
            "histogram",
            "weight must have the shape of self",
            list(weight.shape),
            hint=f"give weights of shape {list(self.shape)}",
        )
    if isinstance(bins, core.Tensor):
        if bins.dim() != 1 or bins.numel() < 2:
            fail(
                RuntimeError,
                "histogram",
                "bin edges must be a vector of 2 or more",
                list(bins.shape),
                hint="facula.linspace(low, high, n + 1) gives the edges of n bins",
            )
        edges = bins.to(self.dtype, copy=True)
    else:
        edges = _equal_bins(self, bins, range)
    hist = _count(self.detach(), edges.numel() - 1, edges.contiguous(), weight, 0, 0)
    if density:
        hist = hist / hist.sum() / (edges[1:] - edges[:-1])
    return return_type_of("histogram", ("hist", "bin_edges"))(hist, edges)


@composite(
    "histogramdd(Tensor self, any bins, *, float[]? range=None, Tensor? weight=None, bool "
    "density=False) -> (Tensor hist, Tensor[] bin_edges)",
    names=("histogramdd", "Tensor.histogramdd"),
    out=False,
)
def histogramdd(self, bins, range, weight, density):
    """A histogram over the last dimension's D coordinates: counts of shape [bins...] and one vector
    of edges each.
    """
    _check_float("histogramdd", self)
    if self.dim() < 2:
        fail(
            RuntimeError,
            "histogramdd",
            "a tensor of 2 or more dimensions was required",
            list(self.shape),
            hint="each row is a point; histogram() counts single numbers",
        )
    ndim = self.shape[-1]
    points = self.detach().reshape((-1, ndim)).contiguous()
    if isinstance(bins, int):
        bins = (bins,) * ndim
    if len(bins) != ndim:
        fail(
            RuntimeError,
            "histogramdd",
            f"{ndim} bin counts or edges were required",
            len(bins),
            hint="give one for each size of the last dimension",
        )
    edges = []
    for d, count in enumerate(bins):
        if isinstance(count, core.Tensor):
            edges.append(count.to(self.dtype).contiguous())
            continue
        given = tuple(range[2 * d : 2 * d + 2]) if range else (0.0, 0.0)
        low, high = _edges("histogram", points.select(1, d), *given)
        edges.append(F.linspace(low, high, count + 1, dtype=self.dtype))
    hist = _count_nd(points, edges, weight)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            shape = [-1 if k == d else 1 for k, _ in enumerate(edges)]
            hist = hist / (edge[1:] - edge[:-1]).reshape(shape)
    return return_type_of("histogramdd", ("hist", "bin_edges"))(hist, tuple(edges))


def _count_nd(points: Any, edges: list[Any], weight: Any) -> Any:
    """Add up the points (or weights) that lie in all ranges, by their joined bin numbers."""
    shape = [edge.numel() - 1 for edge in edges]
    place: Any = None
    inside: Any = None
    for d, edge in enumerate(edges):
        x = points.select(1, d).contiguous()
        found = (F.searchsorted(edge, x, right=True) - 1).clamp(max=shape[d] - 1)
        within = (x >= edge[0]) & (x <= edge[-1])
        place = found if place is None else place * shape[d] + found
        inside = within if inside is None else inside & within
    if weight is None:
        weight = F.ones((points.shape[0],), dtype=points.dtype)
    weight = weight.reshape(-1).to(points.dtype).masked_fill(~inside, 0)
    total = F.zeros((launch.product(shape),), dtype=points.dtype)
    return F.index_add(total, 0, place.masked_fill(~inside, 0), weight).reshape(shape)


def _class_count(tensor: core.Tensor, num_classes: int) -> int:
    """The number of classes, -1 resolved, after a look at the values."""
    if tensor.min().item() < 0:
        fail(
            RuntimeError,
            "one_hot",
            "Class values must be non-negative.",
            tensor.min().item(),
            hint="x - x.min() has classes from 0 on",
        )
    largest = tensor.max().item()
    if num_classes == -1:
        return largest + 1
    if num_classes < 1:
        fail(
            RuntimeError,
            "one_hot",
            "num_classes should be positive",
            num_classes,
            hint="leave num_classes out for as many as the largest class asks for",
        )
    if largest >= num_classes:
        fail(
            RuntimeError,
            "one_hot",
            "Class values must be smaller than num_classes.",
            largest,
            hint=f"num_classes={largest + 1} has a place for all of them",
        )
    return num_classes


@composite(
    "one_hot(Tensor tensor, int num_classes=-1) -> Tensor",
    file_arguments={"tensor": "self"},
    names=("nn.functional.one_hot",),
    home="_C._nn.one_hot",
    keyword_aliases={"input": "tensor", "self": "tensor"},
    out=False,
)
def one_hot(tensor, num_classes):
    """int64 of shape [*, num_classes]: 1 at each class number, 0 elsewhere; -1 takes the largest
    class + 1.
    """
    if tensor.dtype is not core.int64:
        fail(
            RuntimeError,
            "one_hot",
            "one_hot is only applicable to index tensor of type LongTensor",
            tensor.dtype,
            hint="convert it with .long()",
        )
    if tensor.numel() == 0:
        if num_classes <= 0:
            fail(
                RuntimeError,
                "one_hot",
                "Can not infer total number of classes from empty tensor",
                num_classes,
                hint="pass num_classes=n, the number of classes",
            )
        return F.zeros((*tensor.shape, num_classes), dtype=core.int64, device=tensor.device)
    if is_traced(tensor) and num_classes > 0:
        said = "Class values must be non-negative and smaller than num_classes."
        tensor = checked(tensor, 0, num_classes, "one_hot", said)
    elif tensor.device.type != "meta":
        num_classes = _class_count(innermost(tensor), num_classes)
    zero = F.zeros((*tensor.shape, num_classes), dtype=core.int64, device=tensor.device)
    return F.scatter(zero, -1, tensor.unsqueeze(-1), value=1)


@composite(
    "isin(Operand elements, Operand test_elements, *, bool assume_unique=False, bool "
    "invert=False) -> Tensor",
    names=("isin",),
    overload="elements:Tensor+test_elements:Tensor=Tensor_Tensor, elements:Tensor=Tensor_Scalar, Scalar_Tensor",
    file_arguments={
        "Tensor_Scalar.test_elements": "test_element",
        "Scalar_Tensor.elements": "element",
    },
)
def isin(elements, test_elements, assume_unique, invert):
    """Whether each element equals any of the test elements."""
    if not isinstance(elements, core.Tensor):
        elements = F.scalar_tensor(
            elements, dtype=None if isinstance(elements, float) else core.int64
        )
    if not isinstance(test_elements, core.Tensor):
        found = elements == test_elements
        return ~found if invert else found
    tests = test_elements.detach().reshape(-1)
    if tests.numel() == 0:
        return F.full(elements.shape, invert, dtype=core.bool_, device=elements.device)
    # a size that may change: one way for all of them
    changes = getattr(tests.numel(), "_is_symbolic", False)
    if (not changes and tests.numel() <= 8) or elements.device.type == "meta":
        found = (elements.unsqueeze(-1) == tests).any(-1)
        return ~found if invert else found
    common = core.promote_types(elements.dtype, tests.dtype)
    ordered = F.sort(tests.to(common))[0]
    values = elements.to(common)
    place = F.searchsorted(ordered, values).clamp(max=tests.numel() - 1)
    found = F.take(ordered, place) == values
    return ~found if invert else found
