"""`show_pickle` shows what a pickle holds and makes nothing of it."""

import collections
import decimal
import io
import os
import pickle
import zipfile

import pytest

import facula
from facula.utils import show_pickle


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


def shown(data: bytes) -> str:
    stream = io.StringIO()
    show_pickle.DumpUnpickler.dump(io.BytesIO(data), stream)
    return stream.getvalue().strip()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_shown_as_it_is(protocol) -> None:
    value = {"a": [1, 2.5, None, True], "b": ("x", b"y"), "c": {1}}
    text = shown(pickle.dumps(value, protocol))
    assert "'a': [1, 2.5, None, True]" in text
    assert shown(pickle.dumps([1, (2, 3)], protocol)) == "[1, (2, 3)]"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_objects_are_names_and_nothing_is_called(protocol, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = shown(pickle.dumps([Evil(), decimal.Decimal("0.5")], protocol))
    assert "mkdir('made-by-a-pickle')" in text and "decimal.Decimal('0.5')" in text
    assert not (tmp_path / "made-by-a-pickle").exists()


def test_state_and_entries_of_objects_are_shown() -> None:
    ordered = collections.OrderedDict([("k", 1)])
    assert "OrderedDict" in shown(pickle.dumps(ordered)) and "'k': 1" in shown(
        pickle.dumps(ordered)
    )
    assert "collections.deque" in shown(pickle.dumps(collections.deque([7, 8])))


def test_a_member_of_an_archive(tmp_path, capsys) -> None:
    path = str(tmp_path / "model.pt")
    facula.save({"weight": facula.ones(2)}, path)
    show_pickle.main(["show_pickle", f"{path}@*/data.pkl"])
    text = capsys.readouterr().out
    assert "torch._utils._rebuild_tensor_v2" in text and "pers.obj" in text and "weight" in text
    with pytest.raises(RuntimeError, match="one member like 'nothing' was required"):
        show_pickle.main(["show_pickle", f"{path}@nothing"])


def test_several_files_are_named(tmp_path, capsys) -> None:
    paths = []
    for number in (1, 2):
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(pickle.dumps([number]))
        paths.append(str(path))
    show_pickle.main(["show_pickle", *paths])
    assert capsys.readouterr().out.split("\n")[:4] == [f"{paths[0]}:", "[1]", f"{paths[1]}:", "[2]"]


def test_damaged_files_are_errors(tmp_path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no archive")
    with pytest.raises(zipfile.BadZipFile):
        show_pickle.main(["show_pickle", f"{tmp_path / 'x.zip'}@a"])
    with pytest.raises((pickle.UnpicklingError, EOFError, KeyError, IndexError)):
        shown(b"\x80\x04R.")


def test_text_has_a_bound() -> None:
    laughs: list = ["ha"] * 10
    for _ in range(40):
        laughs = [laughs] * 10
    with pytest.raises(RuntimeError, match="values to show were required"):
        shown(pickle.dumps(laughs))
    with pytest.raises(RuntimeError, match="values to show were required"):
        shown(pickle.dumps("x" * (81 << 20)))
    shared = [1, 2]
    assert shown(pickle.dumps([shared] * 3)) == "[[1, 2], [1, 2], [1, 2]]"


def test_values_that_hold_themselves_or_lie_deep_end() -> None:
    circle: list = []
    circle.append(circle)
    assert "Recursion" in shown(pickle.dumps(circle))
    deep = b"(" * 5000 + b"t" * 5000 + b"."
    with pytest.raises(RuntimeError, match="nested too deeply"):
        shown(deep)


def test_members_that_unpack_to_more_than_a_bound_are_refused(tmp_path) -> None:
    path = str(tmp_path / "bomb.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("data.pkl", "w") as member:
            for _ in range(257):
                member.write(bytes(1 << 20))
    assert os.path.getsize(path) < 4 << 20
    with pytest.raises(RuntimeError, match="member of at most"):
        show_pickle.main(["show_pickle", f"{path}@data.pkl"])
