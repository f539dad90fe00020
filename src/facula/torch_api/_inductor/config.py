"""`facula._inductor.config`: the compiler's options as attributes, under PyTorch's names.

Takes: assignments (`config.max_autotune = True`, `config.triton.cudagraphs = True`), `patch`. Gives: the options.
Keeps true: what the compiler knows (`compiler.options`) acts; PyTorch's other usual names are kept, and said to be
without effect when they get another value; any other name is an error.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType

from facula.compiler import options
from facula.compiler.options import OPTIONS, get, set  # noqa: A004, F401 - programs call them here
from facula.core.named_settings import Setting, become

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


def _known(section: str) -> dict[str, Setting]:
    """The compiler's options of a section, `""` for those without one."""
    found = {}
    for name in options.OPTIONS:
        if name.startswith(section) and "." not in name[len(section) :]:
            read, write = functools.partial(options.get, name), functools.partial(options.set, name)
            found[name[len(section) :]] = Setting(read, write)
    return found


def _kept(section: str) -> dict[str, object]:
    return {
        name[len(section) :]: value
        for name, value in _WITHOUT_EFFECT.items()
        if name.startswith(section) and "." not in name[len(section) :]
    }


def _section(name: str) -> ModuleType:
    """The settings `config.name.*`, as a module of their own."""
    made = sys.modules.setdefault(f"{__name__}.{name}", ModuleType(f"{__name__}.{name}"))
    become(made.__name__, _kept(f"{name}."), _known(f"{name}."))
    return made


def _fixed(section: ModuleType) -> Setting:
    return Setting(lambda: section, lambda value: None)


_SECTIONS = {name: _section(name) for name in ("triton", "cpp", "trace")}
_DOTTED = {
    f"{name}.{inner}": Setting(
        functools.partial(getattr, section, inner), functools.partial(setattr, section, inner)
    )
    for name, section in _SECTIONS.items()
    for inner in (*_kept(f"{name}."), *_known(f"{name}."))
}

become(
    __name__,
    _kept(""),
    {**_known(""), **_DOTTED, **{name: _fixed(section) for name, section in _SECTIONS.items()}},
)
