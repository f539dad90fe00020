"""Functions and modules compiled ahead of time, forward and backward.

Takes: a function or module, and compilers for its graphs (`compiler(graph_module, example_inputs)`).
Gives: callables of the same arguments and results.
Keeps true: parameters and buffers are read when the program is called, so that training goes on in
them; a program is traced again where inputs differ in kind from those that it was traced for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from facula import core, nn
from facula.fx import GraphModule
from facula.fx import _pytree as pytree
from facula.fx.higher_order import HigherOrderOperator
from facula.fx.one_memory import first_places, sharing
from facula.lower.aot.compile import Compiler, Options, compile_flat
from facula.lower.aot.for_sizes import Key, NotSymbolic, SymbolicProgram, compile_for_sizes
from facula.lower.aot.min_cut import min_cut_rematerialization_partition
from facula.lower.aot.partition import default_partition
from facula.lower.aot.runtime import Boxed, make_boxed_func
from facula.lower.aot.tracing import trace
from facula.lower.at_sizes import fix_sizes_that_meet_floats

Tensor = core.Tensor


def nop(fx_g: GraphModule, example_inputs: Any) -> Callable[..., Any]:
    """The compiler that runs graphs as they are."""
    return fx_g


def _options(
    fw_compiler: Compiler,
    bw_compiler: Compiler | None,
    partition_fn: Callable[..., Any],
    decompositions: dict[Any, Callable[..., Any]] | None,
    inference_compiler: Compiler | None,
    passes: Callable[[GraphModule], GraphModule] | None = None,
    keep_writes: bool = False,
) -> Options:
    return Options(
        fw_compiler=fw_compiler,
        bw_compiler=fw_compiler if bw_compiler is None else bw_compiler,
        inference_compiler=fw_compiler if inference_compiler is None else inference_compiler,
        partition_fn=partition_fn,
        decompositions=decompositions,
        passes=passes,
        keep_writes=keep_writes,
    )


def _kind(x: object) -> Any:
    """What a trace depends on, of an input."""
    if isinstance(x, Tensor):
        place = (x.shape, x.stride(), x.storage_offset() if x.layout is core.strided else 0)
        return (*place, x.dtype, x.device, x.requires_grad, x.is_leaf, id(type(x)))
    return x


def _sharing(inputs: Sequence[Any]) -> Any:
    """Which inputs are one tensor, or lie on the same memory, and where in it."""
    places = sharing(inputs)
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    same = first_places(list(map(id, tensors)))
    if places is None and len(same) == len(tensors):
        return None
    return places, tuple(same[id(x)] for x in tensors)


class _Cache:
    """The compiled programs of one function, by what their inputs are."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.programs: dict[Any, Any] = {}

    def call(self, function: Callable[..., Any], flat: list[Any], structure: Any) -> Any:
        """The results of the function, nested as it gives them."""
        key = (core.is_grad_enabled(), tuple(map(_kind, flat)), _sharing(flat), structure)
        found = self.programs.get(key)
        if found is None:
            found = self.programs[key] = self._compile(function, flat, structure)
        program, nesting = found
        return pytree.tree_unflatten(list(program(list(flat))), nesting[0])

    def _compile(self, function: Callable[..., Any], flat: list[Any], structure: Any) -> Any:
        nesting: list[Any] = [None]

        def of_flat(*args: Any) -> list[Any]:
            positional, named = pytree.tree_unflatten(list(args), structure)
            leaves, nesting[0] = pytree.tree_flatten(function(*positional, **named))
            return leaves

        program = compile_flat(of_flat, flat, self.options)
        return program, nesting


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
    disable_functionalization: bool = False,
    passes: Callable[[GraphModule], GraphModule] | None = None,
) -> Callable[..., Any]:
    """`fn` with its forward and backward traced and compiled.

    Args:
        fw_compiler: compiles the forward graph.
        bw_compiler: compiles the backward graph; default as the forward.
        partition_fn: takes the joint graph apart: `default_partition` saves all that the backward
            reads, `min_cut_rematerialization_partition` computes cheap things again.
        decompositions: operator -> function that computes it by others.
        inference_compiler: compiles the graph where no gradients are wanted; default as the forward.
        passes: what is done to the traced graph first.
        keep_inference_input_mutations: graphs without gradients write to inputs themselves.
        num_params_buffers, dynamic, enable_log, disable_functionalization: kept for PyTorch's API;
            they change nothing here.
    """
    cache = _Cache(
        _options(
            fw_compiler,
            bw_compiler,
            partition_fn,
            decompositions,
            inference_compiler,
            passes,
            keep_inference_input_mutations,
        )  # fmt: skip
    )

    def compiled(*args: object, **kwargs: object) -> Any:
        flat, structure = pytree.tree_flatten((args, kwargs))
        return cache.call(fn, flat, structure)

    compiled.__name__ = getattr(fn, "__name__", "compiled")
    compiled.__doc__ = fn.__doc__
    return compiled


def functional_of(module: nn.Module) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A module as a function of its parameters and buffers, and these by name."""
    tensors: dict[str, Any] = dict(module.named_parameters(remove_duplicate=False))
    tensors |= dict(module.named_buffers(remove_duplicate=False))

    def run(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with _Swapped(module, values):
            return module(*args, **kwargs)

    return run, tensors


class _Swapped:
    """A block in which a module's parameters and buffers are other tensors."""

    def __init__(self, module: nn.Module, values: dict[str, Any]) -> None:
        self.places = []
        for name, value in values.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            table = owner._parameters if last in owner._parameters else owner._buffers
            self.places.append((table, last, value))
        self.before: list[Any] = []

    def __enter__(self) -> None:
        for table, name, value in self.places:
            self.before.append(table[name])
            table[name] = value

    def __exit__(self, *exception: object) -> None:
        # in reverse: a module with several names has one place, which was entered for each of them
        for (table, name, _), value in reversed(list(zip(self.places, self.before, strict=True))):
            table[name] = value


class _CompiledModule(nn.Module):
    """A module whose forward is compiled; it shows the parameters of the original."""

    def __init__(self, module: nn.Module, cache: _Cache) -> None:
        super().__init__()
        self.orig_module = module
        self._cache = [cache]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The original's forward, compiled."""
        run, tensors = functional_of(self.orig_module)
        flat, structure = pytree.tree_flatten(((tensors, args, kwargs), {}))
        return self._cache[0].call(run, flat, structure)


def aot_module(mod: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """`mod` with forward and backward compiled; arguments as of `aot_function`."""
    kwargs.pop("num_params_buffers", None)
    return _CompiledModule(mod, _Cache(_aot_options(*args, **kwargs)))


def _aot_options(
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    inference_compiler: Compiler | None = None,
    passes: Callable[[GraphModule], GraphModule] | None = None,
    keep_inference_input_mutations: bool = False,
    **others: Any,
) -> Options:
    return _options(
        fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler, passes,
        keep_inference_input_mutations,
    )  # fmt: skip


def aot_module_simplified(
    mod: GraphModule | nn.Module,
    args: Sequence[Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None,
    *,
    passes: Callable[[GraphModule], GraphModule] | None = None,
    boxed: bool = False,
    owned: Sequence[bool] = (),
    passing: bool = False,
    tracer: Callable[..., Any] = trace,
) -> Callable[..., Any]:
    """A captured graph compiled for inputs of one kind, without further checks of them.

    Args:
        mod: the captured graph: takes flat inputs, gives a flat tuple or list (or one result).
        args: its inputs; fake ones will do.
        boxed: give a function of a list of inputs.
        owned: which of `args` are parameters and buffers of some module.
        passing: whether the compilers keep no forward graph, so that it may be taken apart.
        tracer: gives the joint graph of a function and its inputs.
        others: as of `aot_function`.
    """
    options = _options(
        fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler, passes,
        keep_inference_input_mutations,
    )  # fmt: skip
    options.records, options.passing, options.tracer = _turns_recording_on(mod), passing, tracer
    captured = _Captured(mod)
    options.owned = [True] * len(captured.names) + list(owned) if owned else ()
    program = compile_flat(captured.of_flat, [*captured.own(), *args], options)
    return captured.caller(program, boxed)


def aot_module_for_sizes(
    mod: GraphModule,
    args: Sequence[Any],
    fw_compiler: Compiler,
    partition_fn: Callable[..., Any] = default_partition,
    *,
    passes: Callable[[GraphModule], GraphModule] | None = None,
    tracer: Callable[..., Any] = trace,
    keys: Iterable[Key] = (),
) -> SymbolicProgram:
    """A captured graph compiled for all sizes for which the same decisions are taken.

    Args:
        mod: the captured graph; it has no tensors of its own.
        args: its inputs: fake tensors of one mode, whose sizes are symbols where they may change.
        fw_compiler: gives functions from the values of symbols to what runs.
        keys: other sizes that the program is tried for.
        others: as of `aot_function`.

    Raises:
        NotSymbolic: the program can not be compiled so.
    """
    options = _options(fw_compiler, None, partition_fn, None, None, passes)
    options.records, options.tracer = _turns_recording_on(mod), tracer
    if any(isinstance(node.target, HigherOrderOperator) for node in mod.graph.nodes):
        raise NotSymbolic("functions of operators are compiled for each combination")
    captured = _Captured(fix_sizes_that_meet_floats(mod))
    if captured.names:
        raise NotSymbolic("the captured graph has tensors of its own")
    return compile_for_sizes(captured.of_flat, args, options, captured.caller, keys)


class _Captured:
    """A captured graph as a function of flat inputs, those of its own first."""

    def __init__(self, module: GraphModule | nn.Module) -> None:
        self.module = module
        self.names, self.own = _owned_tensors(module)
        #: how the results are nested
        self.structure: Any = None

    def of_flat(self, *inputs: Any) -> list[Any]:
        """The flat results."""
        values = dict(zip(self.names, inputs, strict=False))
        with _Swapped(self.module, values):
            results = self.module(*inputs[len(self.names) :])
        leaves, self.structure = pytree.tree_flatten(results)
        return leaves

    def caller(self, program: Boxed, boxed: bool = False) -> Callable[..., Any]:
        """How the compiled graph is called."""
        structure = self.structure
        single = structure.is_leaf()
        flat_tuple = structure.type is tuple and all(c.is_leaf() for c in structure.children_specs)
        own = self.own if self.names else None
        return _flat_caller(program, own, structure, single, flat_tuple, boxed)


def _turns_recording_on(mod: nn.Module) -> bool:
    """Whether a captured graph leaves a `no_grad` block that began before it."""
    return isinstance(mod, GraphModule) and any(
        n.op == "call_function" and n.target is core.set_grad_enabled and n.args == (True,)
        for n in mod.graph.nodes
    )


def _owned_tensors(mod: nn.Module) -> tuple[list[str], Callable[[], list[Any]]]:
    """The names of a module's own parameters and buffers, and how to read them."""
    tensors = dict(mod.named_parameters(remove_duplicate=False))
    tensors |= dict(mod.named_buffers(remove_duplicate=False))
    names = list(tensors)
    places = []
    for name in names:
        path, _, last = name.rpartition(".")
        owner = mod.get_submodule(path)
        places.append((owner._parameters if last in owner._parameters else owner._buffers, last))
    return names, lambda: [table[last] for table, last in places]


def _flat_caller(
    program: Boxed,
    owned: Callable[..., Any] | None,
    structure: Any,
    single: bool,
    flat_tuple: bool,
    boxed: bool,
) -> Callable[..., Any]:
    """How a compiled captured graph is called."""
    if owned is not None:
        inner, read = program, owned

        def program(args: list[Any]) -> Any:
            return inner([*read(), *args])

    if not boxed and (single or flat_tuple):
        call: Any = core.ArgumentsCall
        return call(program, single)
    if single:
        finish: Any = lambda found: found[0]  # noqa: E731
    elif flat_tuple:
        finish = tuple
    else:
        finish = lambda found: pytree.tree_unflatten(list(found), structure)  # noqa: E731

    if boxed:

        def of_list(args: list[Any]) -> Any:
            return finish(program(args))

        of_list._boxed_call = True  # type: ignore[attr-defined]
        return of_list

    def of_arguments(*args: object) -> Any:
        return finish(program(list(args)))

    return of_arguments


def print_compile(fx_g: GraphModule, _: object) -> Callable[..., Any]:
    """The compiler that prints graphs and runs them as they are."""
    print(fx_g.code)
    return fx_g


__all__ = [
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "default_partition",
    "functional_of",
    "make_boxed_func",
    "min_cut_rematerialization_partition",
    "nop",
    "print_compile",
]
