"""Forms of a model's parts, compared: tables, and texts of them.

Takes: models with forms of their parts in the shadow, and what their loggers have kept. Gives: weights in pairs, and
comparisons by part and configuration. Keeps true: the float part is number 0, its forms are 1, 2, ...
"""

from __future__ import annotations

import importlib
from typing import Any

import facula
from facula.fx import GraphModule
from facula.quantization.suite.errors import compute_sqnr
from facula.quantization.suite.kinds import Results
from facula.quantization.suite.weights import (
    extract_weight_from_node,
    get_op_to_type_to_weight_extraction_fn,
)
from facula.quantization.suite_types import NSSingleResultValuesType

__all__ = ["create_results_comparison", "extract_weight_comparison", "group_results_by_subgraph"]

_WEIGHT = NSSingleResultValuesType.WEIGHT.value


def _weight_in(gm: Any, table: Any) -> dict[str, Any] | None:
    """The record of the first weight in a graph."""
    for node in gm.graph.nodes:
        found = extract_weight_from_node(node, gm, table)
        if found is not None:
            return found
    return None


def extract_weight_comparison(m: GraphModule) -> Results:
    """The weights of a model's parts, and those of their forms.

    Args:
        m: what `convert_n_shadows_model` gives

    Returns:
        ``model``, then ``weight``, then ``subgraph_i_j``: a list of records
    """
    table = get_op_to_type_to_weight_extraction_fn()
    nodes = {node.name: node for node in m.graph.nodes}
    found: dict[str, list[dict[str, Any]]] = {}
    for node in m.graph.nodes:
        if node.op != "call_module" or not str(node.target).startswith("shadow_wrapper_"):
            continue
        i, j = str(node.target).split("_")[-2:]
        logger = getattr(m, f"shadow_{i}_0", None)
        if logger is None:
            continue
        base = extract_weight_from_node(nodes[logger.ref_node_name], m, table)
        form = _weight_in(getattr(m, str(node.target)), table)
        if base is None or form is None:
            continue
        cmp = compute_sqnr(form["values"][0], base["values"][0])
        config = getattr(m, f"shadow_{i}_{j}").qconfig_str
        found[f"subgraph_{i}_0"] = [_record(base, base["values"], cmp, "")]
        found[f"subgraph_{i}_{j}"] = [_record(base, form["values"], cmp, config)]
    return {"model": {_WEIGHT: found}}


def _record(base: dict[str, Any], values: list[Any], cmp: Any, config: str) -> dict[str, Any]:
    return {
        **base,
        "res_type": _WEIGHT,
        "values": values,
        "qconfig_str": config,
        "comparisons": [cmp],
        "comparison_fn_name": "sqnr",
    }


_KEPT = ("ref_node_name", "ref_node_target_type", "fqn")


def group_results_by_subgraph(results: Results) -> dict[str, dict[str, dict[str, Any]]]:
    """Records by part, then by the number of the form.

    Args:
        results: what `extract_results_n_shadows_model` gives
    """
    by_type = results["model"]
    kind = "node_output" if "node_output" in by_type else _WEIGHT
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, entries in by_type[kind].items():
        part, _, number = name.rpartition("_")
        keys = (*_KEPT, "values", "qconfig_str", "comparisons", "comparison_fn_name")
        found.setdefault(part, {})[number] = {key: entries[0][key] for key in keys}
    return found


def create_results_comparison(
    results_grouped: dict[str, dict[str, dict[str, Any]]],
) -> dict[str, Any]:
    """The comparisons of each part's forms.

    Args:
        results_grouped: what `group_results_by_subgraph` gives
    """
    found: dict[str, Any] = {}
    for part, forms in results_grouped.items():
        candidates = {}
        for number, entry in forms.items():
            if number == "0" or not entry["comparisons"]:
                continue
            values = facula.stack([v.detach() for v in entry["comparisons"]])
            candidates[number] = {
                "qconfig_str": entry["qconfig_str"],
                "comparison_fn_name": entry["comparison_fn_name"],
                "cmp_raw": values,
                "cmp_mean": values.mean(),
            }
        base = forms["0"] if "0" in forms else next(iter(forms.values()))
        found[part] = {**{key: base[key] for key in _KEPT}, "candidates": candidates}
    return found


def print_n_shadows_summary(results_comparison: dict[str, Any]) -> None:
    """Prints a line for each form: part, type, configuration, and the mean of its comparisons."""
    rows = [
        (part, entry["fqn"], entry["ref_node_target_type"], number, form["comparison_fn_name"],
         f"{float(form['cmp_mean']):.4f}", form["qconfig_str"])
        for part, entry in results_comparison.items()
        for number, form in entry["candidates"].items()
    ]  # fmt: skip
    heads = ("part", "module", "type", "form", "by", "mean", "configuration")
    try:
        tabulate: Any = importlib.import_module("tabulate")
    except ModuleNotFoundError:
        lines = [" ".join(map(str, row)) for row in (heads, *rows)]
        print("\n".join(lines))
        return
    print(tabulate.tabulate(rows, headers=heads))


def print_summary(results: Results) -> None:
    """Prints the comparisons of records."""
    print_n_shadows_summary(create_results_comparison(group_results_by_subgraph(results)))
