"""`export.unflatten`: modules that several others call, that write to state, or whose calls differ; exchanged ones."""

from __future__ import annotations

import facula
from facula import export, nn


class Leaf(nn.Module):
    """Adds what it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = nn.Buffer(facula.ones(1))

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.count.add_(1)
        return x * 2 + self.count


class Middle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = Leaf()
        self.count = nn.Buffer(facula.ones(1))

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = self.leaf(x + self.leaf.count)
        self.leaf.count.mul_(2)
        return x + self.count


class Top(nn.Module):
    """Calls modules at all depths, also those that only others own."""

    def __init__(self) -> None:
        super().__init__()
        self.middle = Middle()

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = self.middle.leaf(x)
        x = self.middle(x)
        self.middle.count.sub_(3)
        x = self.middle(x) + self.middle.leaf(x)
        return x - self.middle.leaf.count


def test_modules_read_state_that_others_wrote_where_it_is_held():
    x = facula.tensor([3.0])
    expected = Top()(x)
    program = export.export(Top(), (x,))
    tree = export.unflatten(program)
    assert tree(x).tolist() == expected.tolist()
    assert sorted(tree.state_dict())[:2] == ["middle.count", "middle.leaf.count"]


def test_a_tree_writes_to_state_of_its_own():
    x = facula.tensor([3.0])
    program = export.export(Top(), (x,))
    tree = export.unflatten(program)
    tree(x)
    assert program.state_dict["middle.count"].tolist() == [1]
    assert tree.middle.count.tolist() == [-2]


def test_a_call_at_a_depth_keeps_the_modules_on_the_way():
    class Deep(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x + 1

    class Caller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Near()

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.a.inner.inner(self.a.inner(self.a(x)))

    class Near(Deep):
        def __init__(self) -> None:
            super().__init__(Deep(Deep(nn.ReLU())))

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.inner.inner.inner(self.inner.inner(x))

    tree = export.unflatten(export.export(Caller(), (facula.ones(2),)))
    assert tree(facula.ones(2)).tolist() == [4, 4]


def test_a_kept_module_with_calls_that_differ_is_exchanged_as_one():
    class Switch(nn.Module):
        def __init__(self, scale: int = 1) -> None:
            super().__init__()
            self.scale = scale

        def forward(self, x, up):  # type: ignore[no-untyped-def]
            return x + self.scale if up else x * 2

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.switch = Switch()

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.switch(self.switch(self.switch(x, True), False), True)

    x = facula.zeros(2)
    program = export.export(Uses(), (x,), preserve_module_call_signature=("switch",))
    tree = export.unflatten(program)
    for _ in range(2):  # each run begins with the first call
        assert tree(x).tolist() == [3, 3]
    assert tree.switch.type_name().endswith("Switch")
    tree.set_submodule("switch", Switch(10))
    assert tree(x).tolist() == [30, 30]


def test_an_exchanged_module_may_write_to_an_input_and_to_its_buffer():
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total = nn.Buffer(facula.zeros(2))

        def forward(self, x):  # type: ignore[no-untyped-def]
            self.total.add_(x)
            x.mul_(3)
            return x.to(facula.float32) - 1

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.writes = Writes()

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.writes(x) + x + self.writes.total

    expected = Around()(facula.ones(2)).tolist()
    program = export.export(Around(), (facula.ones(2),), preserve_module_call_signature=("writes",))
    for one in (program, program.run_decompositions({})):
        tree = export.unflatten(one)
        assert tree(facula.ones(2)).tolist() == expected
    tree = export.unflatten(program)
    tree.set_submodule("writes", Writes())
    assert tree(facula.ones(2)).tolist() == expected


def test_the_graph_of_the_tree_is_a_function_of_leaves():
    tree = export.unflatten(export.export(nn.Sequential(nn.ReLU()), (facula.ones(2),)))
    text = tree.graph_module.code
    assert "def forward(self, input):" in text or "def forward(self, input_1):" in text
    assert tree.get_submodule("0").graph_module is tree.get_submodule("0")
