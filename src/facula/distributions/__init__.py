"""Probability distributions, their transforms and divergences.

Re-exports: families in `continuous`, `continuous_shapes`, `discrete`, `multivariate` and
`composed`, maps in `transforms` and `matrix_transforms`, sets in `constraints`.
"""

from facula.distributions import composed as _composed
from facula.distributions import (
    constraints,
    kl,
    kl_pairs,
    matrix_transforms,
    transform_base,
    transforms,
)
from facula.distributions import continuous as _continuous
from facula.distributions import continuous_shapes as _shapes
from facula.distributions import discrete as _discrete
from facula.distributions import multivariate as _multivariate
from facula.distributions import registry as constraint_registry
from facula.distributions.distribution import Distribution, ExponentialFamily
from facula.distributions.kl import kl_divergence, register_kl
from facula.distributions.registry import biject_to, transform_to
from facula.distributions.transforms import identity_transform

_found = {
    name: value
    for module in (
        _continuous,
        _shapes,
        _discrete,
        _multivariate,
        _composed,
        transform_base,
        transforms,
        matrix_transforms,
    )
    for name, value in vars(module).items()
    if isinstance(value, type) and not name.startswith("_") and value.__module__ == module.__name__
}
globals().update(_found)
for _name, _value in vars(matrix_transforms).items():
    if isinstance(_value, type) and _value.__module__ == matrix_transforms.__name__:
        setattr(transforms, _name, _value)  # PyTorch has all transforms in one module
        transforms.__all__.append(_name)

__all__ = [
    *sorted(_found),
    "Distribution",
    "ExponentialFamily",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
