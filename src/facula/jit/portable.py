"""Calls of the library's functions that PyTorch has as several operators: how they are written in files.

Takes a node, the texts of its arguments and the names of a file. Gives the text of the call, of an operator or of a
function that the file has beside the program; None for what PyTorch has by itself.
Keeps true: what is written gives the numbers of the node; a function is written once, and only where it is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.builder import constant_of
from facula.jit.ir import Node
from facula.jit.portable_texts import TEXTS

__all__ = ["PortableFunction", "portable_text"]


class PortableFunction:
    """A function of a file that no source text of the program stands behind."""

    def __init__(self, name: str) -> None:
        self.name = f"__torch__.torch.nn.functional.{name}"
        self.own = name

    def compiled(self) -> PortableFunction:
        """Itself: there is nothing to compile."""
        return self

    def text(self, own: str, names: Any) -> str:
        """The definition."""
        arguments, result, body = TEXTS[self.own]
        body = re.sub(r"\$(\w+)", lambda found: names.of_function(_FUNCTIONS[found[1]]), body)
        lines = "\n".join("  " + line for line in body.strip().splitlines())
        return f"def {own}({arguments}) -> {result}:\n{lines}\n"


_FUNCTIONS = {name: PortableFunction(name) for name in TEXTS}


class _Call:
    """One node on its way to text."""

    def __init__(self, node: Node, given: list[str], names: Any) -> None:
        self.node, self.names = node, names
        self.order = [p.name for p in node.signature.parameters]
        self.texts = dict(zip(self.order, given, strict=False))
        for p, value in zip(node.signature.parameters, node.inputs_, strict=False):
            if value.type.kind == "int" and p.type.kind == "float":
                self.texts[p.name] = f"float({self.texts[p.name]})"
            if value.type.kind == "int" and p.type.kind == "List":
                self.texts[p.name] = f"[{', '.join([self.texts[p.name]] * max(p.length, 1))}]"

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    def kind(self, name: str) -> Any:
        """The type of an argument."""
        return self.node.inputs_[self.order.index(name)].type

    def constant(self, name: str) -> Any:
        """The value of an argument, which has to be known."""
        known, value = constant_of(self.node.inputs_[self.order.index(name)])
        if not known:
            fail(RuntimeError, "jit.save", f"a constant `{name}` was required", self.texts[name],
                 hint="write a branch for each value")  # fmt: skip
        return value

    def number(self, name: str) -> str:
        """An argument as a float."""
        text = self[name]
        plain = self.kind(name).kind in ("int", "bool") and not text.startswith("float(")
        return f"float({text})" if plain else text

    def flag(self, name: str) -> str:
        """An argument that is False where it is None."""
        return "False" if self[name] == "None" else self[name]

    def listed(self, name: str, item: str = "int") -> str:
        """A list of numbers: a tuple's items, one number for itself, None as it is."""
        kind, text = self.kind(name), self[name]
        if kind.kind == "Tuple":
            parts = [f"{text}[{i}]" for i in range(len(kind.inner))]
            return f"[{', '.join(_as(p, t.kind, item) for p, t in zip(parts, kind.inner, strict=True))}]"
        if kind.kind in ("int", "float"):
            return f"[{_as(text, kind.kind, item)}]"
        if kind.kind == "List" and kind.item.kind != item:
            return f"[float(each) for each in {text}]"
        return text

    def stride(self, name: str = "stride") -> str:
        """A stride that was left out is an empty list."""
        return "annotate(List[int], [])" if self[name] == "None" else self[name]

    def reduction(self) -> str:
        """The number for `reduction`."""
        self.modern()
        known = {'"none"': "0", '"mean"': "1", '"sum"': "2"}.get(self["reduction"])
        return known or self.function("reduction_code", self["reduction"])

    def modern(self) -> None:
        """Refuses the older arguments for the reduction."""
        for name in ("size_average", "reduce"):
            if self.texts.get(name, "None") != "None":
                fail(RuntimeError, "jit.save", "reduction= was required", f"{name}={self[name]}",
                     hint="files have reduction='none', 'mean' or 'sum'")  # fmt: skip

    def function(self, name: str, *given: str) -> str:
        """A call of a function of the file."""
        return f"{self.names.of_function(_FUNCTIONS[name])}({''.join(g + ', ' for g in given)})"


def _as(text: str, kind: str, item: str) -> str:
    return f"float({text})" if item == "float" and kind != "float" else text


def portable_text(node: Node, given: list[str], names: Any) -> str | None:
    """The text of a call that PyTorch has in another form."""
    signature = node.signature
    if signature is None or not isinstance(signature.source, core.Op):
        return None
    definition = signature.source.definition
    space = definition.public_module.partition(".")[2]
    rules = {"": _IN_ROOT, "nn.functional": _IN_FUNCTIONAL, "ops": _WITHOUT_A_NAME}.get(space, {})
    rule = rules.get(definition.public_name)
    return None if rule is None else rule(_Call(node, given, names))


# ------------------------------------------------------------------ the forms

Rule = Callable[[_Call], str | None]


def _operator(name: str, *arguments: str) -> Rule:
    """An operator with these arguments."""
    return lambda c: f"torch.{name}({', '.join(c[a] for a in arguments)})"


def _loss(name: str, arguments: str) -> Rule:
    """A loss that PyTorch's operators have with a number for the reduction."""

    def rule(c: _Call) -> str:
        code = c.reduction()
        return f"torch.{name}({', '.join(code if a == 'reduction' else c[a] for a in arguments.split())})"

    return rule


def _text(name: str, *arguments: str) -> Rule:
    """A function of the table; `#name` is a number, `?name` a flag."""

    def one(c: _Call, argument: str) -> str:
        if argument == "reduction":
            c.modern()
        forms = {"#": c.number, "?": c.flag, "/": c.stride}
        form = forms.get(argument[0])
        return c[argument] if form is None else form(argument[1:])

    return lambda c: c.function(name, *(one(c, a) for a in arguments))


def _normalize(c: _Call) -> str | None:
    if c.kind("dim").kind != "int":
        return None
    return _text("normalize", "input", "#p", "dim", "#eps")(c)


def _softmin(c: _Call) -> str:
    return f"torch.softmax(torch.neg({c['input']}), {c['dim']}, {c['dtype']})"


def _variance(c: _Call) -> str:
    """The spread of a Gaussian may be one number."""
    if c.kind("var").kind != "Tensor":
        c.texts["var"] = f"torch.mul(torch.ones_like({c['input']}), {c['var']})"
    return str(_text("gaussian_nll_loss", "input", "target", "var", "full", "#eps", "reduction")(c))


def _adaptive(c: _Call) -> str | None:
    kind = c.kind("output_size")
    if kind.kind != "List" or kind.item.kind != "Optional":
        return None
    name = c.node.signature.source.definition.public_name
    return f"torch.{name}({c['input']}, {c.function('known_sizes', c['input'], c['output_size'])})"


def _unpool(dimensions: int) -> Rule:
    def rule(c: _Call) -> str:
        given = [c["input"], c["kernel_size"], c.stride(), c["padding"], c["output_size"]]
        sizes = c.function("unpooled_sizes", *given)
        if dimensions > 1:
            return _unpooled(c, dimensions, sizes)
        x, at = (f"torch.unsqueeze({c[n]}, -1)" for n in ("input", "indices"))
        return f"torch.squeeze(torch.max_unpool2d({x}, {at}, torch.add({sizes}, [1])), -1)"

    return rule


def _unpooled(c: _Call, dimensions: int, sizes: str) -> str:
    if dimensions == 2:
        return f"torch.max_unpool2d({c['input']}, {c['indices']}, {sizes})"
    stride = c["kernel_size"] if c["stride"] == "None" else c["stride"]
    return f"torch.max_unpool3d({c['input']}, {c['indices']}, {sizes}, {stride}, {c['padding']})"


def _interpolate(c: _Call) -> str:
    more = ("recompute_scale_factor", "antialias")
    flags = [c.flag(n) if n in c.texts else "False" for n in ("align_corners", *more)]
    return c.function("interpolate", c["input"], c.listed("size"), c.listed("scale_factor", "float"),
                      c["mode"], *flags)  # fmt: skip


def _affine_grid(c: _Call) -> str:
    return f"torch.affine_grid_generator({c['theta']}, {c['size']}, {c.flag('align_corners')})"


def _norm(c: _Call) -> str:
    """`torch.norm`: PyTorch's operator has no name for the default, and a list of dimensions."""
    p, dim, dtype = c["p"], c["dim"], c["dtype"]
    if p == '"nuc"':
        place = "" if dim == "None" else f"{c.listed('dim')}, "
        return f"torch.nuclear_norm({c['self']}, {place}{c['keepdim']})"
    p = "2" if p in ('"fro"', "None") else p
    if dim == "None" and dtype == "None" and c["keepdim"] == "False":
        return f"torch.norm({c['self']}, {p})"
    dims = "annotate(List[int], [])" if dim == "None" else c.listed("dim")
    tail = "" if dtype == "None" else f", dtype={dtype}"
    return f"torch.norm({c['self']}, {p}, {dims}, {c['keepdim']}{tail})"


def _unique(c: _Call) -> str | None:
    inverse, counts = c.constant("return_inverse"), c.constant("return_counts")
    flags = f"{c['sorted']}, {c['return_inverse']}, {c['return_counts']}"
    whole = c["dim"] == "None"
    if inverse and counts or not (inverse or counts):
        made = (
            f"torch._unique2({c['self']}, {flags})"
            if whole
            else f"torch.unique_dim({c['self']}, {c['dim']}, {flags})"
        )
        return made if inverse else f"({made})[0]"
    name = "unique_" + ("" if whole else "dim_") + ("inverse" if inverse else "counts")
    return c.function(name, c["self"], c["sorted"], *([] if whole else [c["dim"]]))


def _consecutive(c: _Call) -> str:
    inverse, counts = c.constant("return_inverse"), c.constant("return_counts")
    made = f"torch.unique_consecutive({c['self']}, {inverse}, {counts}, {c['dim']})"
    if inverse and counts:
        return made
    if not inverse and not counts:
        return f"({made})[0]"
    return c.function(f"consecutive_{'inverse' if inverse else 'counts'}", c["self"], c["dim"])


def _tensordot(c: _Call) -> str:
    if c.kind("dims").kind == "int":
        return c.function("tensordot", c["a"], c["b"], c["dims"])
    return f"torch.tensordot({c['a']}, {c['b']}, ({c['dims']})[0], ({c['dims']})[1])"


def _lu(c: _Call) -> str | None:
    if c.constant("get_infos"):
        return f"torch._lu_with_info({c['A']}, {c['pivot']}, False)"
    return c.function("lu", c["A"], c["pivot"])


_IN_FUNCTIONAL: dict[str, Rule] = {
    "dropout1d": _text("dropout1d", "input", "#p", "training", "inplace"),
    "dropout3d": _text("dropout3d", "input", "#p", "training", "inplace"),
    "softmin": _softmin, "tanhshrink": _text("tanhshrink", "self"), "softsign": _text("softsign", "self"),
    "logsigmoid": _operator("log_sigmoid", "self"), "normalize": _normalize,
    "gumbel_softmax": _text("gumbel_softmax", "logits", "#tau", "hard", "dim"),
    "local_response_norm": _text("local_response_norm", "input", "size", "#alpha", "#beta", "#k"),
    "kl_div": _text("kl_div", "input", "target", "reduction", "log_target"),
    "nll_loss": _loss("nll_loss_nd", "input target weight reduction ignore_index"),
    "multilabel_soft_margin_loss": _text(
        "multilabel_soft_margin_loss", "input", "target", "weight", "reduction"
    ),
    "multilabel_margin_loss": _loss("multilabel_margin_loss", "input target reduction"),
    "multi_margin_loss": _loss("multi_margin_loss", "input target p margin weight reduction"),
    "poisson_nll_loss": _loss("poisson_nll_loss", "input target log_input full eps reduction"),
    "hinge_embedding_loss": _loss("hinge_embedding_loss", "input target margin reduction"),
    "triplet_margin_loss": _loss(
        "triplet_margin_loss", "anchor positive negative margin p eps swap reduction"
    ),
    "cosine_embedding_loss": _loss("cosine_embedding_loss", "input1 input2 target margin reduction"),
    "margin_ranking_loss": _loss("margin_ranking_loss", "input1 input2 target margin reduction"),
    "soft_margin_loss": _loss("soft_margin_loss", "input target reduction"),
    "binary_cross_entropy": _loss("binary_cross_entropy", "input target weight reduction"),
    "binary_cross_entropy_with_logits": _loss(
        "binary_cross_entropy_with_logits", "input target weight pos_weight reduction"
    ),
    "huber_loss": _loss("huber_loss", "input target reduction delta"),
    "gaussian_nll_loss": _variance,
    "unfold": _operator("im2col", "input", "kernel_size", "dilation", "padding", "stride"),
    "fold": _operator("col2im", "input", "output_size", "kernel_size", "dilation", "padding", "stride"),
    "embedding_bag": _text(
        "embedding_bag", "input", "weight", "offsets", "max_norm", "#norm_type", "scale_grad_by_freq", "mode",
        "sparse", "per_sample_weights", "include_last_offset", "padding_idx",
    ),
    **{f"adaptive_avg_pool{n}d": _adaptive for n in (1, 2, 3)},
    **{f"lp_pool{n}d": _text(f"lp_pool{n}d", "input", "#norm_type", "kernel_size", "/stride", "ceil_mode")
       for n in (1, 2, 3)},
    **{f"max_unpool{n}d": _unpool(n) for n in (1, 2, 3)},
    "interpolate": _interpolate, "upsample": _interpolate, "affine_grid": _affine_grid,
    "grid_sample": _text("grid_sample", "input", "grid", "mode", "padding_mode", "?align_corners"),
}  # fmt: skip
_IN_ROOT: dict[str, Rule] = {
    "ctc_loss": _loss("ctc_loss", "log_probs targets input_lengths target_lengths blank reduction zero_infinity"),
    "norm": _norm, "unique": _unique, "unique_consecutive": _consecutive, "tensordot": _tensordot, "lu": _lu,
}  # fmt: skip
#: operators of the library's own, which traces of its modules have
_WITHOUT_A_NAME: dict[str, Rule] = {
    "_lstm_layer": _text(
        "lstm_layer", "input", "h0", "c0", "w_input", "w_hidden", "bias", "reverse"
    ),
}
