"""Data frames: nulls, types, groups, joins, tensors; without the library, an error that names the extra."""

import math
import subprocess
import sys
from fractions import Fraction

import pytest

import facula
from facula.domains._extras import extra

LISTS = [[1, 2], [], None, [3]]


def installed():
    try:
        extra("pyarrow", "test")
    except ModuleNotFoundError:
        return False
    return True


def test_a_missing_library_is_named():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import facula\n"
        "try: facula.arrow.column([1])\n"
        "except ModuleNotFoundError as e: print(e)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "the library 'pyarrow' was required" in out and 'pip install "facula[arrow]"' in out


def test_types_compare_and_print():
    from facula.arrow import dtypes as d

    assert d.Int64(nullable=True) == d.int64.with_null() != d.int64
    assert d.List(d.int64) == d.List(d.int64) != d.List(d.float32)
    assert str(d.string) == "string" and str(d.Float32(True)) == "Float32(nullable=True)"
    assert d.is_numerical(d.int8) and not d.is_numerical(d.boolean)


if installed():
    import pyarrow

    from facula import arrow
    from facula.arrow import dtypes as d
    from facula.arrow import functional

    def frame():
        return arrow.dataframe(
            {"k": ["p", "q", "p", None], "v": [1, 2, None, 4], "f": [0.5, 1.5, 2.5, 3.5]}
        )

    def test_nulls_stay_nulls():
        c = arrow.column([1, None, 3])
        assert c.dtype == d.Int64(True) and c.null_count == 1 and len(c) == c.length == 3
        assert (
            list(c + 1) == [2, None, 4]
            and list(2 * c) == [2, None, 6]
            and list(c > 1) == [False, None, True]
        )
        assert (
            list(c // 2) == [0, None, 1]
            and list(-c) == [-1, None, -3]
            and list(c % 2) == [1, None, 1]
        )
        assert list(c.fill_null(0)) == [1, 0, 3] and list(c.drop_null()) == [1, 3]
        assert (c.sum(), c.mean(), c.min(), c.max()) == (4, 2.0, 1, 3)
        with pytest.raises(ValueError, match="1 nulls"):
            arrow.column([1, None], dtype=d.int64)
        with pytest.raises(TypeError, match="values of one type"):
            arrow.column([1, "a"])
        with pytest.raises(TypeError, match="columns that add takes"):
            c + "a"

    def test_strings_lists_and_maps():
        s = arrow.column(["ab", None, "c,d"])
        assert list(s.str.length()) == [2, None, 3] and list(s.str.upper()) == ["AB", None, "C,D"]
        assert list(s.str.split(",")) == [["ab"], None, ["c", "d"]]
        rows = arrow.column(LISTS, dtype=d.List(d.int64, nullable=True))
        assert list(rows.list.length()) == [2, 0, None, 1]
        assert list(rows.list.vmap(lambda c: c * 10)) == [[10, 20], [], None, [30]]
        assert list(arrow.column([{"a": 1}], dtype=d.Map(d.string, d.int64))) == [{"a": 1}]

    def test_functions_of_the_program():
        c = arrow.column([1, 2, 3, 4])
        assert list(c.map(lambda v: v * 10)) == [10, 20, 30, 40]
        assert list(c.map({1: 5}, dtype=d.Int64(True))) == [5, None, None, None]
        assert list(c.filter(lambda v: v % 2 == 0)) == [2, 4] and c.reduce(lambda a, b: a + b) == 10
        assert list(c.flatmap(lambda v: [v] * (v % 3))) == [1, 2, 2, 4]
        assert list(c.transform(lambda t: t * 2, format="tensor")) == [2, 4, 6, 8]
        with pytest.raises(ValueError, match="4 values were required"):
            c.transform(lambda t: t[:1], format="python")

    def test_frames():
        df = frame()
        df["g"] = df["f"] * 2
        assert df.columns == ["k", "v", "f", "g"] and list(df["g"]) == [1, 3, 5, 7]
        assert list(df.where(df["f"] > 2)["k"]) == ["p", None] and list(df[1:3]["f"]) == [1.5, 2.5]
        assert list(df.sort(by="f", ascending=False)["f"]) == [3.5, 2.5, 1.5, 0.5]
        assert df.drop(["g"]).rename({"k": "key"}).columns == ["key", "v", "f"]
        assert list(df.map(lambda k, f: (k or "") + str(f), columns=["k", "f"])) == [
            "p0.5",
            "q1.5",
            "p2.5",
            "3.5",
        ]
        assert len(df.drop_null()) == 2 and df.head(1).to_pylist()[0].k == "p"
        assert len(df.append(df)) == 8 and len(df.append(df).drop_duplicates()) == 4
        with pytest.raises(KeyError, match="the columns are"):
            df["nothing"]
        with pytest.raises(ValueError, match="a column of 4 values"):
            df["x"] = [1]
        with pytest.raises(ValueError, match="columns of one length"):
            arrow.dataframe({"a": [1], "b": [1, 2]})

    def test_groups_and_joins():
        df = frame()
        sums = df.groupby("k").sum()
        assert dict(zip(sums["k"], sums["v.sum"], strict=True)) == {"p": 1, "q": 2, None: 4}
        both = df.groupby(["k"]).agg({"f": ["min", "max"]})
        assert list(both["f.max"]) == [2.5, 1.5, 3.5]
        right = arrow.dataframe({"k": ["p"], "n": [9]})
        assert sorted(df.join(right, on="k")["f"]) == [0.5, 2.5]
        with pytest.raises(ValueError, match="a way to join"):
            df.join(right, on="k", how="sideways")

    def test_arrow_and_back():
        df = frame()
        table = df.to_arrow()
        assert (
            isinstance(table, pyarrow.Table)
            and arrow.from_arrow(table).to_pylist() == df.to_pylist()
        )
        array = pyarrow.array(LISTS)
        assert list(arrow.from_arrow(array)) == LISTS
        with pytest.raises(TypeError, match="a table or an array"):
            arrow.from_arrow([1])

    def test_tensors():
        assert arrow.column([1, 2]).to_tensor().tolist() == [1, 2]
        with_nulls = arrow.column([1.0, None]).to_tensor()
        assert with_nulls.presence.tolist() == [True, False] and with_nulls.values[0] == 1
        packed = arrow.column([[1, 2], [], [3]]).to_tensor()
        assert packed.values.tolist() == [1, 2, 3] and packed.offsets.tolist() == [0, 2, 2, 3]
        rows = arrow.dataframe({"p": [1.0, 2.0], "q": [True, False]}).to_tensor()
        assert rows.p.tolist() == [1, 2] and rows.q.tolist() == [True, False]
        assert arrow.column(facula.arange(3)).to_tensor().equal(facula.arange(3))
        loader = facula.utils.data.DataLoader(list(frame().batches(2)), batch_size=None)
        assert [list(batch["f"]) for batch in loader] == [[0.5, 1.5], [2.5, 3.5]]

    def test_features():
        assert list(functional.bucketize(arrow.column([1.0, 2.0, 100.0]), [2.0, 10.0])) == [0, 0, 2]
        ids = arrow.column([[1, 2, 3], [4]])
        assert list(functional.firstx(ids, 2)) == [[1, 2], [4]]
        hashed = list(functional.sigrid_hash(arrow.column([1, 2, 1]), 0, 100))
        assert hashed[0] == hashed[2] != hashed[1] and all(0 <= h < 100 for h in hashed)

    WHOLE = [7, -7, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63) + 1, 1, 0]

    @pytest.mark.parametrize("divisor", [1, 3, -3, 2**53 + 1, -(2**62), 2**63 - 1])
    def test_quotients_of_whole_numbers_are_exact(divisor):
        c = arrow.column([*WHOLE, None])
        assert list(c // divisor) == [*(v // divisor for v in WHOLE), None]
        assert list(c % divisor) == [*(v % divisor for v in WHOLE), None]
        assert list(c / divisor)[:4] == [float(Fraction(v)) / float(divisor) for v in WHOLE[:4]]
        other = arrow.column([divisor] * 9)
        assert list(c // other) == list(c // divisor) and list(7 // other)[0] == 7 // divisor
        assert list(7 % other)[0] == 7 % divisor

    def test_quotients_of_floats_are_pythons():
        left, right = [1.0, -1.0, 1e20, 5.5, -0.5], [0.1, 0.1, 3.0, -2.0, 2.0]
        a, b = arrow.column(left), arrow.column(right)
        assert list(a // b) == [x // y for x, y in zip(left, right, strict=True)]
        assert list(a % b) == [x % y for x, y in zip(left, right, strict=True)]
        assert math.isnan(list(a % 0.0)[0])

    @pytest.mark.parametrize(
        "compute",
        [
            lambda c: c + 1,
            lambda c: -2 - c,
            lambda c: c * 2,
            lambda c: c**2,
            lambda c: c.cumsum(),
            lambda c: c.append([2**70]),
            lambda c: arrow.dataframe({"k": ["a"] * 3, "v": c}).groupby("k").sum(),
        ],
    )
    def test_what_does_not_fit_is_an_error(compute):
        with pytest.raises((OverflowError, TypeError), match=r"^\[arrow"):
            compute(arrow.column([2**63 - 1, 2**63 - 1, 1]))

    def test_sums_of_whole_numbers_are_exact():
        c = arrow.column([2**63 - 1, None, 2**63 - 1])
        assert c.sum() == 2**64 - 2 and c.prod() == (2**63 - 1) ** 2
        assert arrow.column([], d.int64).sum() is None
        df = arrow.dataframe({"k": ["a", "a", "b"], "v": [2**62, 2**61, -(2**62)]})
        assert sorted(df.groupby("k").sum()["v.sum"]) == [-(2**62), 2**62 + 2**61]

    def test_division_by_zero_is_an_error():
        for compute in (lambda c: c // 0, lambda c: c % 0, lambda c: 1 // c):
            with pytest.raises(ZeroDivisionError, match="divisors other than 0"):
                compute(arrow.column([1, 0]))

    def test_places_in_strings_are_characters():
        s = arrow.column(["éü,a", None, "x"])
        assert list(s.str.find(",")) == [2, None, -1] and list(s.str.length()) == [4, None, 1]
        assert list("<" + s + ">") == ["<éü,a>", None, "<x>"]
        assert list(s.str.count("ü")) == [1, None, 0] and list(s.str.title()) == ["Éü,A", None, "X"]
        assert list(s.str.match("[a-z]")) == [False, None, True]
        assert list(arrow.column([" a "]).str.rstrip()) == [" a"]
        with pytest.raises(TypeError, match="a column of string values"):
            _ = arrow.column([1]).str

    def test_nulls_inside_of_lists_and_structures_are_seen():
        c = arrow.column([[1, None], None, [3]])
        assert c.dtype == d.List(d.Int64(True), True)
        (values, presence), offsets = c.to_tensor().values
        assert values.dtype == facula.int64 and presence.tolist() == [True, False, True]
        assert offsets.tolist() == [0, 2, 2, 3]
        assert c.to_tensor().presence.tolist() == [True, False, True]
        with pytest.raises(ValueError, match="values other than null"):
            arrow.column([[1, None]], dtype=d.List(d.int64))
        row = arrow.column([{"a": 1, "b": 0.5}, {"a": None, "b": 1.5}]).to_tensor()
        assert row.a.presence.tolist() == [True, False] and row.b.tolist() == [0.5, 1.5]
        assert arrow.column([[None]]).dtype == d.List(d.Int64(True))

    def test_memory_is_shared_both_ways():
        array = pyarrow.array([1.0, 2.0, 3.0])
        address = array.buffers()[1].address
        c = arrow.from_arrow(array)
        assert c.to_tensor().data_ptr() == address and c[1:].to_tensor().data_ptr() == address + 8
        tensor = facula.arange(4)
        assert arrow.column(tensor).to_arrow().buffers()[1].address == tensor.data_ptr()
        rows = pyarrow.array([[1.0], [2.0, 3.0]])
        values = arrow.from_arrow(rows).to_tensor().values
        assert values.data_ptr() == rows.values.buffers()[1].address

    @pytest.mark.parametrize(
        "rows", [[1, None, 3], [[1, 2], [], [3]], [[1.5], None], [{"a": 1}, {"b": 2, "c": 3}]]
    )
    def test_tensors_become_columns_again(rows):
        kind = d.Map(d.string, d.int64) if isinstance(rows[0], dict) else None
        c = arrow.column(rows, kind)
        again = arrow.column(c.to_tensor()) if kind is None else None
        if kind is None:
            assert [x or None for x in again] == [x or None for x in c]
        packed = arrow.column([{1: 2}, {3: 4, 5: 6}], d.Map(d.int64, d.int64))
        assert list(arrow.column(packed.to_tensor())) == list(packed)
        tail = packed[1:].to_tensor()
        assert tail.keys.values.tolist() == [3, 5] and tail.values.offsets.tolist() == [0, 2]

    @pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 4], [-1, 2], []])
    def test_offsets_that_lead_out_are_refused(offsets):
        with pytest.raises(ValueError, match="offsets that rise from 0 to 3"):
            arrow.column(arrow.PackedList(facula.arange(3), facula.tensor(offsets)))

    def test_loaders_collate_rows():
        df = arrow.dataframe({"x": [1.0, 2.0, 3.0], "ids": [[1, 2], [], [3]]})
        loader = facula.utils.data.DataLoader(df, batch_size=2, collate_fn=arrow.collate)
        first, second = list(loader)
        assert first.x.tolist() == [1, 2] and first.ids.offsets.tolist() == [0, 2, 2]
        assert second.ids.values.tolist() == [3]
        padded = df.to_tensor({"ids": arrow.PadSequence(padding_value=-1)})
        assert padded.ids.tolist() == [[1, 2], [-1, -1], [3, -1]]
        turned = arrow.collate(list(df), {"ids": arrow.PadSequence(batch_first=False)})
        assert turned.ids.tolist() == [[1, 0, 3], [2, 0, 0]]
        assert arrow.collate([{"a": 1}, {"a": 2}]).a.tolist() == [1, 2]
        assert arrow.collate([df[:1], df[1:]]).x.tolist() == [1, 2, 3]

    def test_more_of_columns():
        c = arrow.column([3, None, 1, 3])
        assert (c.count(), c.nunique(), c.mode(), c.median()) == (3, 2, 3, 3)
        assert not c.is_unique() and not c.is_monotonic_increasing()
        assert arrow.column([1, 2, 2]).is_monotonic_increasing()
        assert list(c.cumsum()) == [3, None, 4, 7] and list(c.cummax()) == [3, None, 3, 3]
        assert list(c.nlargest(2)) == [3, 3] and list(c.append([9])) == [3, None, 1, 3, 9]
        assert list(c[[0, -1]]) == [3, 3] and list(c[[True, False, True, False]]) == [3, 1]
        assert list(arrow.column([0.0, 1.0]).exp()) == [1.0, math.e]
        maps = arrow.column([{"a": 1}, None, {"b": 2}], d.Map(d.string, d.int64, True))
        assert list(maps.maps.keys()) == [["a"], None, ["b"]]
        assert list(maps.maps.get("a", 7)) == [1, None, 7]

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda c, df: c[arrow.column([True])],
            lambda c, df: c[arrow.column([1, 2, 3])],
            lambda c, df: c.filter([True]),
            lambda c, df: c[[7]],
            lambda c, df: c["a"],
            lambda c, df: ~arrow.column(["a"]),
            lambda c, df: -arrow.column(["a"]),
            lambda c, df: c.fill_null("a"),
            lambda c, df: c.fill_null(None),
            lambda c, df: c.cast("int64"),
            lambda c, df: c.quantile(2),
            lambda c, df: c + arrow.column([1]),
            lambda c, df: arrow.column([[1], []]).list.get(0),
            lambda c, df: arrow.column([[1], []]).list.vmap(lambda x: x[:0]),
            lambda c, df: arrow.column(["a"]).str.split(""),
            lambda c, df: df[9],
            lambda c, df: df.rename({"a": "b"}),
            lambda c, df: df.rename("a"),
            lambda c, df: df.join([1], on="a"),
            lambda c, df: df.groupby("a").agg("sum"),
            lambda c, df: df.groupby("a").agg({"b": "nothing"}),
            lambda c, df: list(df.batches(0)),
            lambda c, df: df.transform(lambda a, b: a[:1]),
            lambda c, df: df.to_tensor({"z": len}),
            lambda c, df: arrow.dataframe([1, 2], columns=["a"]),
            lambda c, df: arrow.dataframe({1: [2]}),
            lambda c, df: arrow.dataframe(5),
            lambda c, df: arrow.dataframe({"a": [1]}, dtype=d.int64),
            lambda c, df: arrow.collate([]),
            lambda c, df: arrow.PadSequence()(c),
            lambda c, df: functional.sigrid_hash(arrow.column([0.5]), 0, 3),
            lambda c, df: functional.bucketize(arrow.column(["a"]), [1.0]),
            lambda c, df: functional.has_id_overlap(c, c),
        ],
    )
    def test_bad_input_has_a_clear_error(wrong):
        df = arrow.dataframe({"a": [1, 2, None], "b": ["x", "y", "z"]})
        kinds = (TypeError, ValueError, IndexError, KeyError)
        with pytest.raises(kinds, match=r"\[arrow.*required") as caught:
            wrong(arrow.column([1, None, 3]), df)
        assert "hint:" in str(caught.value.args[0])

    def test_equal_rows_come_once():
        nan = float("nan")
        df = arrow.dataframe({"f": [nan, nan, 1.0, 1.0], "l": [[1], [1], [2], [3]]})
        assert len(df.drop_duplicates()) == 3 and len(df.drop_duplicates(["f"])) == 2
        sizes = df.groupby("f").size()
        assert list(sizes["size"]) == [2, 2]
        assert list(df.describe()["f"])[0] == 4

    def test_scores_of_lists():
        a, b = arrow.column([[1, 2, 2], []]), arrow.column([[2, 3], [1]])
        scores = arrow.column([[0.5, 2.0], [1.0]])
        assert list(functional.id_overlap_count(a, b)) == [2, 0]
        assert list(functional.get_max_count(a, b)) == [2, 0]
        assert list(functional.get_jaccard_similarity(a, b)) == [pytest.approx(1 / 3), 0]
        assert list(functional.get_score_sum(a, b, scores)) == [1.0, 0.0]
        assert list(functional.get_score_max(a, b, scores)) == [0.5, 0.0]
        cosine = functional.get_cosine_similarity(b, scores, b, scores)
        assert list(cosine) == [pytest.approx(1.0)] * 2
        assert list(functional.add_tokens(a, [0], begin=True)) == [[0, 1, 2, 2], [0]]
        assert list(functional.bucketize(arrow.column([[1, None]]), [2.0])) == [[0, None]]
