"""Groups, joins and what columns refuse to cut, beside plain loops; where pyarrow is installed."""

import collections
import importlib.util
import math
import random
import statistics

import pytest

if importlib.util.find_spec("pyarrow"):
    from facula import arrow
    from facula.arrow import dtypes as d

    KINDS = {"k": d.String(True), "m": d.Int64(True), "v": d.Int64(True), "f": d.Float64(True)}

    def rows_of(seed):
        draw = random.Random(seed)
        return [
            (
                draw.choice(["a", "b", "c", None]),
                draw.choice([1, 2, 3, None]),
                draw.choice([-5, 0, 7, 2**60, -(2**60), None]),
                draw.choice([0.5, 1.5, -2.0, None]),
            )
            for _ in range(draw.randrange(14))
        ]

    def frame_of(rows):
        return arrow.dataframe(
            {
                name: arrow.column([row[i] for row in rows], kind)
                for i, (name, kind) in enumerate(KINDS.items())
            }
        )

    def grouped(rows, places):
        groups = collections.OrderedDict()
        for row in rows:
            groups.setdefault(tuple(row[i] for i in places), []).append(row)
        return groups

    WORDS = {
        "sum": sum,
        "mean": lambda x: sum(x) / len(x),
        "min": min,
        "max": max,
        "median": statistics.median,
        "std": lambda x: statistics.stdev(x) if len(x) > 1 else None,
        "nunique": lambda x: len(set(x)),
    }

    @pytest.mark.parametrize("keys", [["k"], ["k", "m"]])
    @pytest.mark.parametrize("word", WORDS)
    def test_groups_are_those_of_a_loop(word, keys):
        for seed in range(12):
            rows = rows_of(seed)
            found = frame_of(rows).groupby(keys).agg({"v": word, "f": word})
            places = [list(KINDS).index(key) for key in keys]
            for made, (key, group) in zip(found, grouped(rows, places).items(), strict=True):
                assert tuple(made)[: len(keys)] == key
                for got, place in zip(tuple(made)[len(keys) :], (2, 3), strict=True):
                    values = [row[place] for row in group if row[place] is not None]
                    wanted = WORDS[word](values) if values else None
                    if wanted is None:
                        assert got is None or (word == "nunique" and got == 0)
                    else:
                        assert got == pytest.approx(wanted, rel=1e-12)

    def test_whole_numbers_are_put_together_exactly():
        df = arrow.dataframe({"k": ["a"] * 3, "v": [2**63 - 1, -(2**63) + 8, -5]})
        assert list(df.groupby("k").agg({"v": "mean"})["v.mean"]) == [2 / 3]
        assert df["v"].mean() == 2 / 3 and df["v"].sum() == 2
        small = arrow.dataframe({"k": ["a", "a", "b"], "v": [3, 7, 2]})
        assert list(small.groupby("k").agg({"v": "prod"})["v.prod"]) == [21, 2]
        assert list(small.groupby("k").agg({"v": "product"})["v.product"]) == [21, 2]

    @pytest.mark.parametrize("word", ["product", "prod", "sum"])
    def test_results_without_room_are_errors(word):
        df = arrow.dataframe({"k": ["a", "a"], "v": [2**63 - 1, 2**63 - 1]})
        with pytest.raises(OverflowError, match=r"^\[arrow.groupby\] a result that fits"):
            df.groupby("k").agg({"v": word})

    def test_groups_are_sorted_where_it_is_asked():
        df = arrow.dataframe({"k": ["b", None, "a", "b"], "v": [1, 2, 3, 4]})
        assert list(df.groupby("k").sum()["k"]) == ["b", None, "a"]
        assert list(df.groupby("k", sort=True).sum()["k"]) == ["a", "b", None]
        assert list(df.groupby("k", sort=True).size()["size"]) == [1, 2, 1]
        keys = [key for key, _ in df.groupby("k", sort=True)]
        assert keys == ["a", "b", None]

    def test_groups_are_gone_through():
        df = arrow.dataframe({"k": ["b", "a", "b"], "m": [1, 1, 1], "v": [1, 2, 3]})
        assert [(key, list(part["v"])) for key, part in df.groupby("k")] == [
            ("b", [1, 3]),
            ("a", [2]),
        ]
        assert [key for key, _ in df.groupby(["k", "m"])] == [("b", 1), ("a", 1)]

    def test_names_of_columns_do_not_clash():
        df = arrow.dataframe({"v_sum": ["a", "a", "b"], "v": [1, 2, 3]})
        assert list(df.groupby("v_sum").sum()["v.sum"]) == [3, 3]
        with pytest.raises(ValueError, match="the name of a column was required"):
            df.groupby([])

    def test_both_zeros_are_one_value():
        c = arrow.column([0.0, -0.0, 1.0])
        assert c.nunique() == 2 and len(c.drop_duplicates()) == 2 and not c.is_unique()
        assert list(c.isin([-0.0])) == [True, True, False]
        sizes = arrow.dataframe({"f": c}).groupby("f").size()
        assert sorted(sizes["size"]) == [1, 2]

    def test_joins_keep_the_order_of_the_left():
        for seed in range(12):
            rows = rows_of(seed)
            right = [("b", 10), ("a", 20), ("d", 30), (None, 40), ("b", 50)][: seed % 6]
            other = arrow.dataframe(
                {
                    "k": arrow.column([k for k, _ in right], d.String(True)),
                    "w": arrow.column([w for _, w in right], d.Int64(True)),
                }
            )
            met = [[(*row, w) for k, w in right if k is not None and k == row[0]] for row in rows]
            inner = [pair for pairs in met for pair in pairs]
            left = [
                pair
                for row, pairs in zip(rows, met, strict=True)
                for pair in pairs or [(*row, None)]
            ]
            df = frame_of(rows)
            assert [tuple(row) for row in df.join(other, on="k")] == inner
            assert [tuple(row) for row in df.join(other, on="k", how="left")] == left
            found = [tuple(row) for row in df.join(other, on="k", how="outer")]
            assert found[: len(left)] == left
            alone = [w for k, w in right if k is None or k not in {row[0] for row in rows}]
            assert [row[-1] for row in found[len(left) :]] == alone

    @pytest.mark.parametrize(
        ("rows", "kind", "got"),
        [
            (lambda: [1, 1.5], lambda: d.int64, "1.5"),
            (lambda: [[1], [2.5]], lambda: d.List(d.int32), "2.5"),
            (lambda: [{"a": 0.25}], lambda: d.Map(d.string, d.int64), "0.25"),
            (lambda: [[(0.5, 1)]], lambda: d.Map(d.int8, d.int64), "0.5"),
            (lambda: [{"a": 0.25}], lambda: d.Struct([d.Field("a", d.int64)]), "0.25"),
            (lambda: [(0.25,)], lambda: d.Struct([d.Field("a", d.int64)]), "0.25"),
            (
                lambda: [{"a": 1, "b": 2}],
                lambda: d.Struct([d.Field("a", d.int64)]),
                "the key 'b' beside the fields a",
            ),
        ],
    )
    def test_what_does_not_fit_a_type_is_not_cut(rows, kind, got):
        with pytest.raises(TypeError) as caught:
            arrow.column(rows(), kind())
        assert got in str(caught.value) and str(caught.value).startswith("[arrow.column]")
        assert list(arrow.column([1.0, None, 3], d.Int64(True))) == [1, None, 3]

    @pytest.mark.parametrize("text", ["", "a", "éb", " a  b ", "\t", "日本 語\u3000x"])
    def test_strings_are_pythons(text):
        s = arrow.column([text, None])
        assert list(s.str.split()) == [text.split(), None]
        assert list(s.str.split(maxsplit=1)) == [text.split(None, 1), None]
        assert list(s.str.replace("", "-")) == [text.replace("", "-"), None]
        assert list(s.str.count("")) == [text.count(""), None]
        assert list(s.str.count("x*", regex=True)) == [len(text) + 1, None]

    def test_a_dictionary_with_a_default_gives_it():
        table = collections.defaultdict(lambda: 7, {1: 5})
        assert list(arrow.column([1, 2]).map(table)) == [5, 7]
        assert list(arrow.column([1, 2]).map({1: 5})) == [5, None]
        assert math.isnan(arrow.column([math.nan]).mean())
