"""`facula._inductor.config`: the compiler's options as attributes, under PyTorch's names.

Takes: assignments (`config.max_autotune = True`, `config.triton.cudagraphs = True`), `patch`. Gives: the options.
Keeps true: what the compiler knows (`compiler.options`) acts; PyTorch's other usual names are kept, and said to be
without effect when they get another value; any other name is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType

from facula.compiler import options
from facula.compiler.options import OPTIONS, get, set  # noqa: A004, F401 - programs call them here
from facula.core.named_settings import Setting, attribute, become

#: what PyTorch's programs set that has nothing to change here, with PyTorch's defaults
_WITHOUT_EFFECT = {
    "aggressive_fusion": False, "allow_buffer_reuse": True, "assert_indirect_indexing": True,
    "assume_aligned_inputs": False, "autotune_in_subproc": False, "autotune_local_cache": True,
    "autotune_remote_cache": None, "b2b_gemm_pass": False, "batch_fusion": True, "benchmark_kernel": False,
    "combo_kernels": False, "comment_origin": False, "compile_threads": 1, "conv_1x1_as_mm": False,
    "cpp_wrapper": False, "dce": False, "emulate_precision_casts": False, "fallback_random": False,
    "force_shape_pad": False, "fx_graph_remote_cache": None, "generate_intermediate_hooks": False,
    "group_fusion": False, "implicit_fallbacks": True, "inplace_buffers": True, "keep_output_stride": True,
    "loop_ordering_after_fusion": True, "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
    "max_autotune_pointwise": False, "memory_planning": False, "nan_asserts": False, "permute_fusion": False,
    "post_grad_custom_post_pass": None, "post_grad_custom_pre_pass": None, "joint_custom_post_pass": None,
    "joint_custom_pre_pass": None, "pre_grad_custom_pass": None, "profiler_mark_wrapper_call": False,
    "prologue_fusion": True, "reorder_for_compute_comm_overlap": False, "search_autotune_cache": False,
    "shape_padding": True, "size_asserts": True, "split_reductions": True, "static_weight_shapes": True,
    "unroll_reductions_threshold": 8, "use_mixed_mm": True, "verbose_progress": False,
    "worker_start_method": "subprocess", "bundle_triton_into_fx_graph_cache": True,
    "triton.autotune_pointwise": True, "triton.cudagraph_skip_dynamic_graphs": False,
    "triton.cudagraph_trees": True, "triton.descriptive_names": "original_aten", "triton.divisible_by_16": True,
    "triton.multi_kernel": 0, "triton.persistent_reductions": True, "triton.store_cubin": False,
    "cpp.dynamic_threads": False, "cpp.enable_kernel_profile": False, "cpp.max_horizontal_fusion_size": 16,
    "cpp.min_chunk_size": 512, "cpp.simdlen": None, "cpp.threads": -1, "cpp.weight_prepack": True,
    "trace.debug_dir": None, "trace.fx_graph": True, "trace.graph_diagram": False, "trace.output_code": True,
}  # fmt: skip


def _of_section(section: str, names: Iterable[str]) -> list[str]:
    """The names that stand in a section, `""` for those in none."""
    return [name for name in names if name.rpartition(".")[0] == section]


def _become(module: str, section: str, more: Mapping[str, Setting] = MappingProxyType({})) -> None:
    """Make a module one of the settings of a section."""
    kept = {
        name.rpartition(".")[2]: _WITHOUT_EFFECT[name]
        for name in _of_section(section, _WITHOUT_EFFECT)
    }
    known = {
        name.rpartition(".")[2]: options.setting(name) for name in _of_section(section, OPTIONS)
    }
    become(module, kept, {**known, **more})


def _section(name: str) -> ModuleType:
    """The settings `config.name.*`, as a module of their own."""
    made = sys.modules.setdefault(f"{__name__}.{name}", ModuleType(f"{__name__}.{name}"))
    _become(made.__name__, name)
    return made


def _fixed(section: ModuleType) -> Setting:
    return Setting(lambda: section, lambda value: None)


_SECTIONS = {name: _section(name) for name in ("triton", "cpp", "trace")}
_DOTTED = {
    name: attribute(_SECTIONS[section], inner)
    for name in (*_WITHOUT_EFFECT, *OPTIONS)
    for section, dot, inner in [name.rpartition(".")]
    if dot
}
_become(__name__, "", {**_DOTTED, **{name: _fixed(each) for name, each in _SECTIONS.items()}})
