"""Observers in a graph: in front of and behind everything that a backend quantizes.

Takes: a traced and fused model, what each node is quantized with, and the matches of the backend's patterns. Gives:
the model with observers. Keeps true: a value has one observer for each dtype that is asked for; what has the
parameters of its input has its input's observer; what is no tensor, and what has no configuration, is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.fx import Node
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.backend_config.classes import ObservationType
from facula.quantization.graph.configurations import combination, reuses_input
from facula.quantization.graph.custom import Customs
from facula.quantization.graph.matching import Match, same_call
from facula.quantization.utils import activation_is_statically_quantized

_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_UNSEEN = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
#: dtypes whose values are no tensors of numbers to be observed
_PLAIN = (core.float32, core.bool, None)
PREFIX = "activation_post_process_"


def free_name(model: object, prefix: str) -> str:
    """The first `prefix` with a number behind it that a model has no attribute of."""
    number = 0
    while hasattr(model, f"{prefix}{number}"):
        number += 1
    return f"{prefix}{number}"


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes of an argument, which may be a list or a dictionary."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from nodes_in(part)
    elif isinstance(value, dict):
        yield from nodes_in(list(value.values()))


class Observing:
    """One model that gets its observers."""

    def __init__(
        self, model: Any, configs: dict[Any, Any], matches: dict[Any, Match], plain: set[Any], customs: Customs,
    ) -> None:  # fmt: skip
        self.model, self.graph, self.configs = model, model.graph, configs
        self.matches, self.plain, self.customs = matches, plain, customs
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.quantized: dict[
            Any, tuple[Any, bool]
        ] = {}  # values that are integers without observers
        self.observed: set[Any] = set()  # nodes that are quantized

    def run(self) -> None:
        """Put the observers into the graph."""
        nodes = list(self.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"]
        for index in self.customs.quantized_inputs:
            if index < len(inputs):
                self.quantized[inputs[index]] = (core.quint8, False)
        for node in nodes:
            if node.op == "output":
                self._results(node)
            elif node in self.matches:
                self._node(node, self.matches[node])
        self.graph.lint()
        self.model.recompile()

    # ---------------------------------------------------------------- one node

    def _node(self, node: object, match: Match) -> None:
        config = self.configs.get(node)
        if config is None or node in self.plain:
            return
        if match.config is None:
            self._custom(node, config)
            return
        how = self._how(match)
        if how is _UNSEEN or how is None:
            return
        if any(self.configs.get(n) is None for n in match.nodes):
            return
        types = combination(match, self.configs.get(match.root) or config)
        if types is None:
            return
        self.observed.add(node)
        self._inputs(node, match, config)
        if node is match.last:
            self._output(node, how, config)

    def _how(self, match: Match) -> Any:
        """How results of a match are observed; None where nothing of it is a tensor."""
        config = match.config
        assert config is not None
        first = match.nodes[-1]
        tensors = [n for n in nodes_in([first.args, first.kwargs]) if self._is_tensor(n)]
        if first.op == "call_function" and not tensors:
            return None
        counts = config._num_tensor_args_to_observation_type
        if counts:
            number = sum(isinstance(a, Node) and self._is_tensor(a) for a in first.args[:2])
            return counts.get(number, config.observation_type) if number else None
        return config.observation_type

    def _is_tensor(self, node: object) -> bool:
        return node not in self.plain

    # ---------------------------------------------------------------- inputs

    def _inputs(self, node: Any, match: Match, config: object) -> None:
        places = self._places(node)
        by_place = {index: word for word, index in places.items()}
        first = True
        args = []
        for index, value in enumerate(node.args):
            word = by_place.get(index, "")
            args.append(self._argument(value, node, match, config, word, first))
            first = False
        kwargs = {}
        for key, value in node.kwargs.items():
            word = key if key in places else ""
            kwargs[key] = self._argument(value, node, match, config, word, first and not word)
            first = False
        node.args, node.kwargs = tuple(args), kwargs

    def _places(self, node: Any) -> dict[str, int]:
        """Where a function takes its weight and its bias."""
        if node.op != "call_function":
            return {}
        for pattern, config in self.customs.backend._pattern_complex_format_to_config.items():
            found = config._input_type_to_index
            if found and not isinstance(pattern, (str, tuple)) and same_call(node.target, pattern):
                return found
        return {}

    def _argument(
        self, value: Any, node: object, match: Match, config: Any, word: str, first: bool
    ) -> Any:
        if isinstance(value, (list, tuple)):
            parts = [self._argument(v, node, match, config, word, first) for v in value]
            return type(value)(parts)
        if not isinstance(value, Node) or value in self.plain or value in match.nodes:
            return value
        if word == "bias":
            return self._bias(value, config)
        if word == "weight":
            return self._seen(value, config.weight)
        made = config.activation()
        if getattr(made, "is_dynamic", False) and not first:
            return value
        return value if reuses_input(config) else self._seen(value, config.activation)

    def _bias(self, value: object, config: Any) -> Any:
        """A bias has floats of 16 bits where everything has."""
        seen, weight = config.activation(), config.weight()
        if not (seen.dtype is weight.dtype is core.float16) or getattr(seen, "is_dynamic", False):
            return value
        return self._seen(value, ob.PlaceholderObserver.with_args(dtype=core.float16))

    def _dtype_of(self, value: Any) -> tuple[Any, bool]:
        """What a value is where it is used."""
        if value in self.quantized:
            return self.quantized[value]
        if value.op == "call_module":
            module = self.modules.get(value.target)
            if module is not None and fq.is_activation_post_process(module):
                return module.dtype, bool(getattr(module, "is_dynamic", False))
        return core.float32, False

    def _seen(self, value: Any, maker: Callable[[], Any]) -> Any:
        """The value behind an observer of the dtype that is asked for; there may be one already."""
        made = maker()
        wanted = (made.dtype, bool(getattr(made, "is_dynamic", False)))
        if made.dtype in _PLAIN or (self._dtype_of(value) == wanted and not wanted[1]):
            return value
        for user in value.users:
            if user.op == "call_module" and self._dtype_of(user) == wanted:
                return user
        return self.put(value, made)

    def put(self, value: object, observer: Any) -> Any:
        """A node that calls an observer on a value."""
        name = free_name(self.model, PREFIX)
        observer.train(self.model.training)
        self.model.add_module(name, observer)
        self.modules[name] = observer
        with self.graph.inserting_after(value):
            return self.graph.call_module(name, (value,))

    # ---------------------------------------------------------------- results

    def _through(self, node: Any, made: object) -> None:
        for user in list(node.users):
            if user is not made:
                user.replace_input_with(node, made)

    def _output(self, node: Any, how: object, config: object) -> None:
        shares = how is _SHARED or reuses_input(config)
        if not activation_is_statically_quantized(config) and not self._is_half(config):
            return
        sources = self._observers_behind(node) if shares else []
        first = node.args[0] if node.args else None
        if shares and not sources and first not in self.quantized:
            return
        maker = self.customs.output_maker(config, self.modules.get(str(node.target)))
        made = self.put(node, sources[0] if sources else maker())
        for other in sources[1:]:
            self._share(other, sources[0])
        self._through(node, made)

    def _is_half(self, config: Any) -> bool:
        made = config.activation()
        return made.dtype is core.float16 and not getattr(made, "is_dynamic", False)

    def _share(self, observer: object, first: Any) -> None:
        """Put one observer into all places of another."""
        for name, module in list(self.modules.items()):
            if module is observer:
                setattr(self.model, name, first)
                self.modules[name] = first

    def _observers_behind(self, node: Any) -> list[Any]:
        """The observers of what a node takes, through nodes that have none."""
        value = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
        both = self.matches[node].nodes[-1].args[:2] if node.op != "call_module" else ()
        if not isinstance(value, (list, tuple)):
            tensors = [v for v in both if isinstance(v, Node) and self._is_tensor(v)]
            value = tensors[:1] or [value]
        found = []
        for part in value:
            while isinstance(part, Node):
                module = self.modules.get(str(part.target)) if part.op == "call_module" else None
                if module is not None and fq.is_activation_post_process(module):
                    found.append(module)
                    break
                part = part.args[0] if part.args and part.op != "placeholder" else None
                while isinstance(part, (list, tuple)) and part:
                    part = part[0]
        return [m for i, m in enumerate(found) if all(m is not o for o in found[:i])]

    def _custom(self, node: Any, config: Any) -> None:
        """A module that is quantized by itself, or in a way of its own."""
        self.observed.add(node)
        if self.customs.is_standalone(node):
            self.customs.prepare_standalone(self, node, config)
            return
        if activation_is_statically_quantized(config):
            args = [
                self._argument(a, node, self.matches[node], config, "", i == 0)
                for i, a in enumerate(node.args)
            ]
            node.args = tuple(args)
            self._through(node, self.put(node, config.activation()))
        self.customs.observe(self, node, config)

    def _results(self, node: Any) -> None:
        """Results that have to be integers get an observer where they have none."""
        places = self.customs.quantized_outputs
        if not places:
            return
        value = node.args[0]
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
        for index in places:
            if index >= len(parts) or not isinstance(parts[index], Node):
                continue
            if self._dtype_of(parts[index])[0] is core.float32:
                parts[index] = self._seen(parts[index], ob.default_observer)
        node.args = (type(value)(parts) if isinstance(value, (list, tuple)) else parts[0],)
