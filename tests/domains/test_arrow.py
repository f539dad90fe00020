"""Data frames: nulls, types, groups, joins, tensors; without the library, an error that names the extra."""

import subprocess
import sys

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
