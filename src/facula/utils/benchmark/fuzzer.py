"""Random inputs for timing: sizes from a distribution, tensors of these sizes in various memory orders.

Takes: descriptions of parameters and tensors, constraints, a seed. Gives: dicts of tensors and of their
parameters. Keeps true: the same seed gives the same inputs; a parameter set that breaks a constraint
is drawn again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula.core.errors import fail

DISTRIBUTIONS = ("loguniform", "uniform")
PATIENCE = 1000


class ParameterAlias:
    """A parameter whose value is that of another one, which may be drawn later."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number: between limits, uniformly or uniformly in its logarithm, or one of weighted values."""

    def __init__(
        self,
        name: str,
        minval: int | float | None = None,
        maxval: int | float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name = name
        self._minval, self._maxval, self.strict = minval, maxval, strict
        self._distribution = distribution
        if isinstance(distribution, dict):
            total = sum(distribution.values())
            if any(w < 0 for w in distribution.values()) or not math.isclose(
                total, 1, abs_tol=1e-3
            ):
                fail(
                    ValueError,
                    "FuzzedParameter",
                    "probabilities that add up to 1 were required",
                    distribution,
                    hint="take weights of 0 or more, divided by their sum",
                )
        elif distribution not in DISTRIBUTIONS:
            fail(
                ValueError,
                "FuzzedParameter",
                f"one of {DISTRIBUTIONS} or a dict was required",
                distribution,
                hint="'uniform' takes every number alike",
            )
        elif minval is None or maxval is None:
            fail(
                ValueError,
                "FuzzedParameter",
                "minval and maxval were required",
                f"{minval} and {maxval}",
                hint="pass both, or a dictionary of values and probabilities",
            )

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def sample(self, state: random.Random) -> Any:
        """One value."""
        if isinstance(self._distribution, dict):
            values = list(self._distribution)
            return state.choices(values, [self._distribution[v] for v in values])[0]
        low, high = self._minval, self._maxval
        whole = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "uniform":
            return state.randint(low, high) if whole else state.uniform(low, high)  # type: ignore[arg-type]
        drawn = 2 ** state.uniform(math.log2(low), math.log2(high))  # type: ignore[arg-type]
        return min(max(round(drawn), low), high) if whole else drawn  # type: ignore[type-var]


class FuzzedTensor:
    """A tensor whose sizes are parameters; sometimes transposed or cut out of a larger one."""

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: facula.dtype = facula.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Any] | None = None,
    ) -> None:
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter, self._roll_parameter = dim_parameter, roll_parameter
        self._dtype, self._cuda = dtype, cuda
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def _made(self, size: list[int], params: dict[str, Any]) -> Any:
        if self._tensor_constructor is not None:
            return self._tensor_constructor(size=tuple(size), dtype=self._dtype, **params)
        device = "cuda" if self._cuda else "cpu"
        if self._dtype.is_floating_point or self._dtype.is_complex:
            return facula.rand(size, dtype=self._dtype, device=device)
        top = 2 if self._dtype is facula.bool else 127
        return facula.randint(0, top, size, dtype=facula.int64, device=device).to(self._dtype)

    def _sizes(self, params: dict[str, Any]) -> tuple[list[int], list[int]]:
        """The sizes, and those of the memory out of which steps are cut."""
        dim = params[self._dim_parameter] if self._dim_parameter else len(self._size)
        size = [params[s] if isinstance(s, str) else s for s in self._size[:dim]]
        given = self._steps or (1,) * dim
        steps = [params[s] if isinstance(s, str) else s for s in given[:dim]]
        return size, [n * step for n, step in zip(size, steps, strict=True)]

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether sizes of these parameters are within the limits."""
        size, allocated = self._sizes(params)
        count, bytes_ = math.prod(size), math.prod(allocated) * self._dtype.itemsize
        return not (
            (self._max_elements and count > self._max_elements)
            or (self._min_elements and count < self._min_elements)
            or (self._max_allocation_bytes and bytes_ > self._max_allocation_bytes)
        )

    def sample(self, params: dict[str, Any], state: random.Random) -> tuple[Any, dict[str, Any]]:
        """A tensor and what it is like."""
        size, allocated = self._sizes(params)
        order = list(range(len(size)))
        if len(size) > 1 and state.random() >= self._probability_contiguous:
            while order == sorted(order):
                state.shuffle(order)
        tensor = self._made([allocated[d] for d in order], params)
        tensor = tensor.permute([order.index(d) for d in range(len(size))])
        steps = [a // max(n, 1) for a, n in zip(allocated, size, strict=True)]
        tensor = tensor[tuple(slice(None, None, step) for step in steps)]
        return tensor, {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Draws parameters until all constraints hold, and makes the tensors of them."""

    def __init__(
        self,
        parameters: list[FuzzedParameter | list[FuzzedParameter]],
        tensors: list[FuzzedTensor | list[FuzzedTensor]],
        constraints: list[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._parameters: list[FuzzedParameter] = _flat(parameters)
        self._tensors: list[FuzzedTensor] = _flat(tensors)
        self._constraints = constraints or []
        self._seed = random.getrandbits(32) if seed is None else seed
        names = [x.name for x in self._parameters] + [x.name for x in self._tensors]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            fail(
                ValueError,
                "Fuzzer",
                "names that differ were required",
                sorted(repeated),
                hint="rename one of them",
            )
        self._rejections = self._draws = 0

    @property
    def rejection_rate(self) -> float:
        """The share of parameter sets that broke a constraint."""
        return self._rejections / self._draws if self._draws else 0.0

    def _parameters_once(self, state: random.Random) -> dict[str, Any]:
        drawn = {p.name: p.sample(state) for p in self._parameters}
        for name, value in drawn.items():
            seen = {name}
            while isinstance(value, ParameterAlias):
                if value.alias_to in seen:
                    fail(
                        ValueError,
                        "Fuzzer",
                        "aliases without a circle were required",
                        name,
                        hint="let an alias name a parameter that is no alias",
                    )
                seen.add(value.alias_to)
                value = drawn[value.alias_to]
            drawn[name] = value
        return drawn

    def _parameters_within(self, state: random.Random) -> dict[str, Any]:
        for _ in range(PATIENCE):
            self._draws += 1
            params = self._parameters_once(state)
            if all(c(**params) for c in self._constraints) and all(
                t.satisfies_constraints(params) for t in self._tensors
            ):
                return params
            self._rejections += 1
        fail(
            ValueError,
            "Fuzzer",
            f"constraints that one of {PATIENCE} draws meets were required",
            hint="widen the limits of the tensors or the parameters",
        )

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """`n` times: tensors by name, their properties by name, and the parameters."""
        state = random.Random(self._seed)
        generator_state = facula.get_rng_state()
        try:
            facula.manual_seed(self._seed)
            for _ in range(n):
                params = self._parameters_within(state)
                made = {t.name: t.sample(params, state) for t in self._tensors}
                yield (
                    {name: tensor for name, (tensor, _) in made.items()},
                    {name: properties for name, (_, properties) in made.items()},
                    params,
                )
        finally:
            facula.set_rng_state(generator_state)


def _flat(items: list[Any]) -> list[Any]:
    """A list whose items may be lists, in one list."""
    return [x for item in items for x in (item if isinstance(item, (list, tuple)) else [item])]
