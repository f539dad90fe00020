"""Where public names come from that are not operators.

Takes: nothing. Gives: `SUBMODULES`, the modules that `facula.name` imports when asked, and `NAMES`,
the module of each function or class that is found there on first use. Keeps true: nothing is
imported here before it is asked for; no operator is named (their names are derived from the table).
"""

from __future__ import annotations

import sys
from typing import Any

SUBMODULES = frozenset(
    (
        "nn optim autograd signal utils data serialization testing random backends fx func amp linalg "
        "special fft masked sparse storage distributions cpu cuda mps mtia xpu accelerator types return_types "
        "overrides library jit profiler _C _VF _custom_op _custom_ops _higher_order_ops _library _ops _prims "
        "_prims_common version compiler "
        "_dynamo _guards _logging _tensor_str ao alias torch_version "
        "distributed __config__ __future__ hub export futures multiprocessing onnx monitor "
        "quasirandom vision audio text arrow csprng quantization _inductor _export mobile nested package "
        "_utils _vmap_internals functional _subclasses _dispatch _decomp _functorch _refs _six _tensor"
    ).split()
)

#: those that PyTorch has as packages of their own: `from facula import *` gives PyTorch's names
DOMAINS = frozenset("vision audio text arrow csprng".split())

#: compiled libraries of other packages whose operators facula defines itself (`ops.load_library`)
LIBRARIES = {
    "torchvision/_C": "facula.vision.definitions",
    "torchvision/_C_stable": "facula.vision.definitions",
    "torchvision/image": "facula.vision.images",
    "torchvision/image_stable": "facula.vision.images",
    "torchaudio/_torchaudio": "facula.audio.definitions",
    "torchaudio/libtorchaudio": "facula.audio.definitions",
}

_FROM = {
    "facula.mobile": "is_vulkan_available",
    "facula.older_methods": "solve eig lstsq symeig",
    "facula.compiler.api": "compile",
    "facula.fx.higher_order": "cond while_loop",
    "facula.serialization": "save load",
    "facula.serialization.reader": "PyTorchFileReader",
    "facula.jit": "ScriptMethod ScriptModule ScriptFunction _jit_internal",
    "facula.accelerator": "Stream Event get_device_module _register_device_module",
    "facula.autograd.grad_mode": "no_grad enable_grad set_grad_enabled inference_mode",
    "facula.autograd.transforms": "vmap",
    "facula.random": "seed initial_seed get_rng_state set_rng_state",
    "facula.core.printing": "set_printoptions",
    "facula.functional": (
        "is_tensor is_storage is_floating_point is_complex is_nonzero is_same_size numel "
        "typename broadcast_shapes asarray clone detach detach_ fill fill_ zero_ resize_as_ "
        "_has_compatible_shallow_copy_type is_signed is_conj is_neg is_inference is_distributed "
        "_debug_has_internal_overlap get_device from_file unravel_index _shape_as_tensor _is_functional_tensor"
    ),
    "facula.switches": (
        "set_default_device get_default_device set_default_tensor_type "
        "set_float32_matmul_precision get_float32_matmul_precision "
        "use_deterministic_algorithms are_deterministic_algorithms_enabled "
        "set_deterministic_debug_mode get_deterministic_debug_mode "
        "is_deterministic_algorithms_warn_only_enabled set_warn_always is_warn_always_enabled "
        "get_num_interop_threads set_num_interop_threads init_num_threads set_flush_denormal "
        "set_anomaly_enabled set_vital read_vitals vitals_enabled"
    ),
    "facula.alias": "install_as_torch",
    "facula.torch_api.parts": (
        "has_cuda has_cudnn has_lapack has_mkl has_mkldnn has_mps has_openmp has_spectral math "
        "is_deterministic set_deterministic compiled_with_cxx11_abi classes "
        "_disable_dynamo"
    ),
    "facula._C": "StorageBase",
    "facula.futures": "Future",
    "facula.quantization.create": (
        "quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel dequantize "
        "_choose_qparams_per_tensor _make_per_tensor_quantized_tensor "
        "_make_per_channel_quantized_tensor _empty_affine_quantized "
        "_empty_per_channel_affine_quantized empty_quantized int_repr q_scale q_zero_point "
        "q_per_channel_scales q_per_channel_zero_points q_per_channel_axis"
    ),
    "facula.quantization.fake": (
        "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
        "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine "
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams "
        "fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask "
        "fused_moving_avg_obs_fake_quant _fused_moving_avg_obs_fq_helper"
    ),
    "facula.quantization.weight_only": (
        "_int_mm _weight_int8pack_mm _convert_weight_to_int4pack_for_cpu _weight_int4pack_mm_for_cpu"
    ),
    "facula.quantization.scaled": "_scaled_mm",
    "facula.quantization.ranges": "choose_qparams_optimized _saturate_weight_to_fp16",
    "facula.quantization.tensor": (
        "qscheme per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric "
        "per_channel_affine_float_qparams"
    ),
    "facula.ops.table.tags": "Tag",
    "facula.ops.forms.rare": (
        "_unsafe_view _add_relu _jagged_to_padded_dense_forward "
        "_padded_dense_to_jagged_forward _convolution_double_backward thnn_conv2d slow_conv3d "
        "slow_conv_dilated2d slow_conv_dilated3d _grid_sampler_2d_cpu_fallback "
        "cross_entropy_loss"
    ),
    "facula.ops.sparse_layouts.indices": "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo dsmm",
    "facula.ops.sparse_layouts.checks": (
        "_validate_sparse_coo_tensor_args _validate_sparse_compressed_tensor_args "
        "_validate_sparse_csr_tensor_args _validate_sparse_csc_tensor_args "
        "_validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args"
    ),
    "facula.checks": (
        "_assert _assert_async _check _check_index _check_is_size _check_not_implemented "
        "_check_tensor_all _check_tensor_all_with _check_type _check_value _check_with"
    ),
    "facula.amp.autocast_mode": "autocast",
    "facula.amp.grad_scaler": (
        "GradScaler _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_"
    ),
    "facula.autograd.autocast": (
        "is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype "
        "is_autocast_cpu_enabled set_autocast_cpu_enabled get_autocast_cpu_dtype "
        "set_autocast_cpu_dtype "
        "get_autocast_gpu_dtype set_autocast_gpu_dtype is_autocast_cache_enabled "
        "set_autocast_cache_enabled "
        "clear_autocast_cache autocast_increment_nesting autocast_decrement_nesting"
    ),
    "facula.constants": (
        "e pi inf nan newaxis half float double short int long chalf cfloat cdouble "
        "legacy_contiguous_format"
    ),
    "facula.nn.recurrent": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    "facula.storage": (
        "TypedStorage Storage FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage IntStorage "
        "ShortStorage CharStorage ByteStorage BoolStorage ComplexFloatStorage ComplexDoubleStorage "
        "_storage_classes QUInt8Storage QInt8Storage QInt32Storage QUInt4x2Storage QUInt2x4Storage"
    ),
    "facula.fx.symbols": "SymInt SymFloat SymBool sym_float sym_int sym_ite sym_max sym_min sym_not sym_sum",
    "facula.legacy": (
        "FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor "
        "CharTensor ByteTensor "
        "BoolTensor _tensor_classes"
    ),
}
NAMES = {name: module for module, names in _FROM.items() for name in names.split()}


class SecondNames:
    """Asks `facula.second_names`, once somebody imports a module of the package after it is there."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: object = None) -> Any:
        """Where the module is, if it is one under a second name."""
        if not name.startswith("facula.") or name == "facula.second_names":
            return _with_tensors(name, path) if name == "multiprocessing.reduction" else None
        # lazily: most programs import no module by a second name
        from . import second_names

        return second_names.find_spec(name)

    @staticmethod
    def install() -> None:
        """Comes first: packages that are others would be executed again."""
        finder: Any = SecondNames
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)


def _with_tensors(name: str, path: list[Any]) -> Any:
    """Python's module by which processes send objects; when it is there, it learns of tensors."""
    # lazily: most programs have one process
    import importlib
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path)
    loader: Any = spec and spec.loader
    if loader is None:
        return None
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        importlib.import_module("facula.shared_memory")

    loader.exec_module = exec_module
    return spec
