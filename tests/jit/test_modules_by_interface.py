"""Modules that scripts know by an interface: an index that only the running program knows, and what fits."""

from __future__ import annotations

import io
from typing import Any, Dict, List, Tuple  # noqa: UP035

import pytest

import facula
from facula import Tensor, jit, nn


@jit.interface
class Stage(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Counted(nn.Module):
    def forward(self, x: Tensor) -> int:
        return x.dim()


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.named = nn.ModuleDict({"twice": Scaled(2.0), "thrice": Scaled(3.0)})
        self.listed = nn.ModuleList([Scaled(5.0), Scaled(7.0)])

    def forward(self, x: Tensor, name: str, which: int) -> Tensor:
        first: Stage = self.named[name]
        second: Stage = self.listed[which]
        return second.forward(first.forward(x))


def again(module: Any) -> Any:
    stream = io.BytesIO()
    module.save(stream) if hasattr(module, "save") else jit.save(module, stream)
    return jit.load(io.BytesIO(stream.getvalue()))


def test_the_running_program_chooses_a_module() -> None:
    scripted = jit.script(Chosen())
    for module in (scripted, again(scripted), again(again(scripted))):
        assert module(facula.ones(1), "thrice", 1).item() == 21
        assert module(facula.ones(1), "twice", 0).item() == 10


@pytest.mark.parametrize(("name", "which"), [("none", 0), ("twice", 2), ("twice", -1)])
def test_a_module_that_is_not_there_is_named(name: str, which: int) -> None:
    with pytest.raises(RuntimeError, match="does not have a field with name"):
        jit.script(Chosen())(facula.ones(1), name, which)


class Unlike(Chosen):
    def __init__(self) -> None:
        super().__init__()
        self.listed = nn.ModuleList([Scaled(5.0), Counted()])


def test_every_module_has_to_be_of_the_interface() -> None:
    with pytest.raises(RuntimeError, match="Attribute 1 is not of annotated type"):
        jit.script(Unlike())


class Unannotated(Chosen):
    def forward(self, x: Tensor, name: str, which: int) -> Tensor:
        return self.listed[which](x)


def test_an_index_without_an_interface_is_refused() -> None:
    with pytest.raises(RuntimeError, match="only supported with integer literals"):
        jit.script(Unannotated())


def test_such_modules_are_not_frozen() -> None:
    with pytest.raises(
        RuntimeError, match="Freezing modules containing prim::ModuleContainerIndex"
    ):
        jit.freeze(jit.script(Chosen().eval()))


def passed_on(stage: Stage, x: Tensor) -> Tensor:
    return stage.forward(x)


@jit.script
class Plain:
    def __init__(self) -> None:
        self.factor = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def test_arguments_of_an_interface_are_looked_at() -> None:
    scripted = jit.script(passed_on)
    assert scripted(jit.script(Scaled(4.0)), facula.ones(1)).item() == 4
    with pytest.raises(RuntimeError, match="only a ScriptModule class can be subtype"):
        scripted(Plain(), facula.ones(1))
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        scripted(jit.script(Counted()), facula.ones(1))


def test_an_interface_has_no_other_base() -> None:
    with pytest.raises(RuntimeError, match="does not support inheritance yet"):

        @jit.interface
        class Wrong(nn.ReLU):
            def forward(self, x: Tensor) -> Tensor:
                return x


class Held(nn.Module):
    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.stage = Scaled(6.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.stage.forward(x)


def test_a_file_of_a_loaded_program_has_the_methods_behind_an_interface() -> None:
    loaded = again(again(jit.script(Held())))
    assert loaded(facula.ones(1)).item() == 6


class OwnList(Counted, nn.ModuleList):
    def __init__(self, modules: Any) -> None:
        Counted.__init__(self)
        nn.ModuleList.__init__(self, modules)


class OwnDict(Counted, nn.ModuleDict):
    def __init__(self, modules: Any) -> None:
        Counted.__init__(self)
        nn.ModuleDict.__init__(self, modules)


class Asks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.listed = OwnList([Scaled(1.0)])
        self.named = OwnDict({"here": Scaled(1.0)})

    def forward(self, x: Tensor) -> Tuple[int, bool, bool]:  # noqa: UP006
        return len(self.listed) + len(self.named), "here" in self.named, "there" in self.named


def test_containers_of_the_program_s_own_class_are_asked_before_it_runs() -> None:
    scripted = jit.script(Asks())
    assert scripted(facula.ones(1)) == again(scripted)(facula.ones(1)) == (2, True, False)


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.saved: bool = False
        self.loaded: bool = False

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    @jit.export
    def _save_to_state_dict(self, destination: Dict[str, Tensor], prefix: str, keep_vars: bool):  # noqa: UP006
        self.saved = True
        return {"own": facula.ones(1)}

    @jit.export
    def _load_from_state_dict(
        self, state_dict: Dict[str, Tensor], prefix: str, local_metadata: Any, strict: bool,  # noqa: UP006
        missing_keys: List[str], unexpected_keys: List[str], error_msgs: List[str],  # noqa: UP006
    ):  # fmt: skip
        self.loaded = True
        return


def test_a_scripted_module_says_itself_what_its_state_is() -> None:
    scripted = jit.script(Remembers())
    state = scripted.state_dict()
    assert scripted.saved and not scripted.loaded
    scripted.load_state_dict(state)
    assert scripted.loaded


# ------------------------------------------------------------------ types of literals and questions


def mixed(flag: bool) -> List[int | str]:  # noqa: UP006
    found = [1, "two"]
    if flag:
        found.append(3)
    return found


def test_a_list_of_several_types_holds_a_union() -> None:
    with pytest.warns(UserWarning, match="Union"):
        scripted = jit.script(mixed)
    assert scripted(True) == [1, "two", 3]


def paired(keys: List[str], values: List[int]) -> Dict[str, int]:  # noqa: UP006
    return dict(zip(keys, values))  # noqa: B905


def test_a_dict_of_pairs_that_only_the_running_program_knows() -> None:
    scripted = jit.script(paired)
    for function in (scripted, again(scripted)):
        assert function(["a", "b"], [1, 2]) == {"a": 1, "b": 2}
        assert function([], []) == {}


def filled_with_another_type() -> Dict[str, str]:  # noqa: UP006
    found: Dict[str, str] = {name: 1 for name in ["a", "b"]}  # type: ignore[misc]  # noqa: UP006
    return found


def keys_of_two_types() -> None:
    _ = {1: "a", "b": "c"}


def list_of_text() -> None:
    _: List[int] = [1, "a"]  # type: ignore[list-item]  # noqa: UP006


def list_for_a_number() -> None:
    _: int = [1]  # type: ignore[assignment]


def text_for_a_number() -> None:
    _: int = "a"  # type: ignore[assignment]


def annotated_twice(flag: bool) -> None:
    x = 5
    if flag:
        x: int | None = 7  # type: ignore[no-redef]
    print(x)


@pytest.mark.filterwarnings("ignore:.*of several types")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (filled_with_another_type, "did not match the type of an actual value type `int`"),
        (keys_of_two_types, "Dicts may only contain homogeneous keys"),
        (list_of_text, "did not match the types of the given list elements"),
        (list_for_a_number, "Expected an annotation of type List"),
        (text_for_a_number, "is annotated with type int"),
        (annotated_twice, "declare and annotate the type of variable"),
    ],
)
def test_what_an_annotation_does_not_fit(function: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        jit.script(function)


def bare(x: Any) -> bool:
    return jit.isinstance(x, List)  # noqa: UP006


def test_a_question_for_a_type_names_what_is_inside() -> None:
    for asked in (lambda: jit.script(bare), lambda: bare([1])):
        with pytest.raises(RuntimeError, match="Attempted to use List without a contained type"):
            asked()
    with pytest.raises(RuntimeError, match="must be a type or a tuple of types"):
        jit.isinstance(1, [int])
    with pytest.warns(UserWarning, match="inner type of a container is lost"):
        assert jit.isinstance([], List[int])  # noqa: UP006


def one_of_three(flag: int) -> str | int | None:
    y: int | str | None = "foo"
    if flag == 0:
        x: int | str | None = y
    elif flag == 1:
        x: int | str | None = 1  # type: ignore[no-redef]
    else:
        x: int | str | None = None  # type: ignore[no-redef]
    return x


def test_branches_of_several_types_come_back_from_a_file() -> None:
    loaded = again(jit.script(one_of_three))
    assert [loaded(i) for i in range(3)] == ["foo", 1, None]
