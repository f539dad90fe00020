"""Ready-made parametrizations: orthogonal, weight norm, spectral norm.

Takes a module and the name of one of its tensors.  Gives the module with the tensor parametrized.
Keeps true: assigning to the tensor sets the originals so that it takes the assigned value, where
that can be.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from facula.nn.modules.module import Module
from facula.nn.utils import parametrize
from facula.nn.utils.weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> facula.Tensor:
    """A parameter or buffer of a module, by its name."""
    weight = getattr(module, name, None)
    if not isinstance(weight, facula.Tensor):
        fail(
            ValueError,
            "parametrization",
            f"Module '{module}' has no parameter or buffer with name '{name}'",
            hint="named_parameters() lists the names",
        )
    return weight


def _is_orthogonal(q: core.Tensor, eps: float | None = None) -> bool:
    n, k = q.size(-2), q.size(-1)
    identity = facula.eye(k, dtype=q.dtype, device=q.device)
    bound = (10.0 * n * facula.finfo(q.dtype).eps) if eps is None else eps
    return bool(facula.allclose(q.mH @ q, identity, atol=bound))


def _make_orthogonal(a: core.Tensor) -> Any:
    """The orthogonal factor whose triangular factor has a positive diagonal."""
    q, r = facula.linalg.qr(a)
    return q * facula.sgn(facula.diagonal(r, dim1=-2, dim2=-1)).unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    base: Any

    def __init__(
        self, weight: core.Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            fail(
                ValueError,
                "orthogonal",
                "The householder parametrization does not support complex tensors.",
                hint="orthogonal_map='matrix_exp' takes complex tensors",
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _skew_to_orthogonal(self, x: core.Tensor, n: int, k: int) -> Any:
        a = x.tril()
        if n != k:
            padding = x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)
            a = facula.cat([a, padding], dim=-1)
        a = a - a.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            q = facula.matrix_exp(a)
        else:
            identity = facula.eye(n, dtype=a.dtype, device=a.device)
            q = facula.linalg.solve(identity - a * 0.5, identity + a * 0.5)
        return q[..., :k] if n != k else q

    def forward(self, x: core.Tensor) -> Any:
        """The orthogonal matrix that ``x`` stands for."""
        n, k = x.size(-2), x.size(-1)
        transposed = n < k
        if transposed:
            x = x.mT
            n, k = k, n
        if self.orthogonal_map == _OrthMaps.householder:
            below = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
            q = facula.linalg.householder_product(below, tau)
            # the reflections' signs stand on the diagonal
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            q = self._skew_to_orthogonal(x, n, k)
        if hasattr(self, "base") and self.base is not None:
            q = self.base @ q
        return q.mT if transposed else q

    def right_inverse(self, q: core.Tensor) -> Any:
        """What gives ``q``; with a base, the base is set to it."""
        with no_grad():
            if q.shape != self.shape:
                fail(
                    ValueError,
                    "orthogonal",
                    (
                        f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor "
                        f"of shape {q.shape}."
                    ),
                    hint="assign a tensor of the weight's shape",
                )
            n, k = q.size(-2), q.size(-1)
            transposed = n < k
            if transposed:
                q = q.mT
                n, k = k, n
            if not hasattr(self, "base"):
                return self._inverse_without_base(q, transposed)
            if n == k:
                q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
            else:
                rest = facula.randn(*(q.size()[:-2] + (n, n - k)), dtype=q.dtype, device=q.device)
                q = _make_orthogonal(facula.cat([q, rest], dim=-1))
            self.base = q
            # stands for the identity in all of the maps: reflections that the signs undo, or no skew part
            negative = facula.zeros_like(q[..., :k])
            negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return negative.mT if transposed else negative

    def _inverse_without_base(self, q: Any, transposed: bool) -> Any:
        if self.orthogonal_map in (_OrthMaps.cayley, _OrthMaps.matrix_exp):
            fail(
                NotImplementedError,
                "orthogonal",
                (
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                ),
                hint="use_trivialization=True allows assignments",
            )
        a, tau = facula.geqrf(q)
        # a diagonal of signs, which forward reads
        a.diagonal(dim1=-2, dim2=-1).sign_()
        a.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
        return a.mT if transposed else a


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Makes a matrix, or a batch of them, orthogonal (complex: unitary) while it is learned.
    [Lezcano-Casado 2019]

    Args:
        module: whose tensor it is
        name: its name; of two dimensions or more
        orthogonal_map: 'matrix_exp', 'cayley' or 'householder'; None for the first for square or
            complex matrices and the last for others
        use_trivialization: whether learning starts from the present value and values may be
            assigned

    Returns:
        the module.

    Raises:
        ValueError: the map is unknown, or the tensor has fewer than two dimensions.

    Example:
        >>> layer = facula.nn.utils.parametrizations.orthogonal(facula.nn.Linear(4, 2))
        >>> facula.allclose(layer.weight @ layer.weight.T, facula.eye(2), atol=1e-5)
        True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        fail(
            ValueError,
            "orthogonal",
            (f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."),
            hint="weights of layers with two dimensions or more can be orthogonal",
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    choice = getattr(_OrthMaps, orthogonal_map, None)
    if choice is None:
        fail(
            ValueError,
            "orthogonal",
            (
                'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
                f"{orthogonal_map}"
            ),
            hint="leave orthogonal_map out",
        )
    parametrization = _Orthogonal(weight, choice, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)
    return module


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: core.Tensor, weight_v: core.Tensor) -> Any:
        """``g * v / |v|``."""
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: core.Tensor) -> tuple[Any, Any]:
        """Magnitude and direction."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Computes a weight as ``g * v / |v|``; magnitude g and direction v are learned. [Salimans &
    Kingma 2016]

    Args:
        module: whose tensor it is
        name: its name
        dim: the dimension of which each slice has a g of its own; None for one g

    Returns:
        the module, with g and v in ``parametrizations.<name>.original0`` and ``original1``.

    Example:
        >>> layer = facula.nn.utils.parametrizations.weight_norm(facula.nn.Linear(4, 3))
        >>> layer.parametrizations.weight.original0.shape
        facula.Size([3, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_older_keys(
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        g, v = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if g in state_dict and v in state_dict:
            state_dict[f"{prefix}parametrizations.{name}.original0"] = state_dict.pop(g)
            state_dict[f"{prefix}parametrizations.{name}.original1"] = state_dict.pop(v)

    module._register_load_state_dict_pre_hook(rename_older_keys)
    return module


class _SpectralNorm(Module):
    def __init__(
        self, weight: core.Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        dims = weight.ndim
        if not -dims <= dim < dims:
            fail(
                IndexError,
                "spectral_norm",
                (
                    f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] "
                    f"but got {dim})"
                ),
                hint="dim=-1 is the last dimension",
            )
        if n_power_iterations <= 0:
            fail(
                ValueError,
                "spectral_norm",
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}",
                hint="n_power_iterations=1 is the default",
            )
        self.dim = dim if dim >= 0 else dim + dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=self.eps))
            self._power_method(matrix, 15)  # a good start

    def _reshape_weight_to_matrix(self, weight: core.Tensor) -> Any:
        if self.dim != 0:
            rest = (d for d in range(weight.dim()) if d != self.dim)
            weight = weight.permute(self.dim, *rest)
        return weight.flatten(1)

    def _power_method(self, matrix: core.Tensor, n_power_iterations: int) -> None:
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(facula.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(facula.mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight: core.Tensor) -> Any:
        """The weight divided by its largest singular value (a vector by its length)."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # later iterations change the buffers in place: the graph needs the present values
        u, v = self._u.clone(), self._v.clone()
        return weight / facula.vdot(u, facula.mv(matrix, v))

    def right_inverse(self, value: object) -> Any:
        """The value: its norm cannot be known."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value, by power iteration. [Miyato et al. 2018]

    Args:
        module: whose tensor it is
        name: its name
        n_power_iterations: iterations at each access in training
        eps: the least norm that divides
        dim: the dimension of outputs; None for 1 in transposed convolutions and 0 in others

    Returns:
        the module.

    Example:
        >>> layer = facula.nn.utils.parametrizations.spectral_norm(facula.nn.Linear(4, 3))
        >>> bool((facula.linalg.matrix_norm(layer.weight, 2) - 1).abs() < 0.1)
        True
    """
    weight = _tensor_of(module, name)
    if dim is None:
        transposed = isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
        dim = 1 if transposed else 0
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, parametrization)
    return module
