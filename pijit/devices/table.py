"""The callables that carry a device or a process group, and what becomes of them.

A row has a module, names in it, and a rule (pijit/devices/rules.py). A name that the installed version does not have is
passed over. In place of the module `torch.KIND` stand those that torch has for each kind of device; `torch.NAMED` is
that of the kind that the program is written for: the program is told that this one is there, and no other.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pijit.devices.rules import RULES, Rule, arguments, given, instead, made_by, returns
from pijit.errors import ConfigError


class Row(NamedTuple):
    """Callables of one module, and the rule for them."""

    module: str
    names: str
    rule: Rule


def _row(module: str, names: str, rule: str | Rule) -> Row:
    return Row(module, names, RULES[rule] if isinstance(rule, str) else rule)


def _from(source: str, module: str, names: str) -> list[Row]:
    """Rows of what the module `source` has under the same names."""
    return [_row(module, name, instead(f"{source}:{name}")) for name in names.split()]


def _answers(module: str, names: str) -> list[Row]:
    return _from("pijit.devices.answers", module, names)


_MAKERS = (
    "empty empty_strided empty_permuted zeros ones full eye arange range linspace logspace rand randn randint randperm "
    "tensor scalar_tensor tril_indices triu_indices bartlett_window blackman_window hamming_window hann_window "
    "kaiser_window from_file"
)
_LIKE = (
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like sparse_coo_tensor sparse_csr_tensor "
    "sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor empty_quantized"
)
_TYPES = "Float Double Half BFloat16 Int Long Short Char Byte Bool"
_NOTHING = (
    "init synchronize empty_cache ipc_collect set_device set_per_process_memory_fraction set_sync_debug_mode "
    "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats "
    "reset_peak_host_memory_stats reset_accumulated_host_memory_stats _lazy_init _sleep"
)
_ZERO = (
    "current_device memory_allocated memory_reserved memory_cached max_memory_allocated max_memory_reserved "
    "max_memory_cached utilization memory_usage temperature power_draw clock_rate device_memory_used "
    "get_sync_debug_mode current_allocated_memory driver_allocated_memory"
)

_LIGHTNING = (
    ("lightning.pytorch.trainer.trainer", "Trainer.__init__"),
    ("pytorch_lightning.trainer.trainer", "Trainer.__init__"),
    ("lightning.fabric.fabric", "Fabric.__init__"),
    ("lightning_fabric.fabric", "Fabric.__init__"),
)

# `--device`
DEVICE = [
    # what makes tensors
    _row("torch", _MAKERS, "maker"),
    _row("torch", _LIKE, "device="),
    _row("torch", "as_tensor asarray", "converter"),
    _row("torch", "Tensor.new_empty Tensor.new_zeros Tensor.new_ones Tensor.new_full", "device="),
    _row("torch", "Tensor.new_empty_strided Tensor.new_tensor", "device="),
    _row("torch", "from_numpy frombuffer", "from host"),
    _row("torch", "Tensor.numpy Tensor.__array__", "to host"),
    _row("torch.fft", "fftfreq rfftfreq", "device="),
    _row("torch.nested", "nested_tensor as_nested_tensor", "device="),
    # what moves them
    _row("torch", "Tensor.to", "tensor to"),
    _row("torch", "Tensor.cpu", "copy"),
    _row("torch", "Tensor.cuda Tensor.xpu Tensor.npu Tensor.hpu Tensor.ipu Tensor.mtia", "here"),
    _row("torch", "Tensor.pin_memory", "first"),
    _row("torch", "Tensor.record_stream", "nothing"),
    _row("torch", "Tensor.type set_default_tensor_type", "type"),
    _row("torch.cuda", " ".join(f"{name}Tensor" for name in _TYPES.split()), "plain type"),
    _row("torch.nn", "Module.to Module.to_empty", "to"),
    _row("torch.storage", "_StorageBase.cuda UntypedStorage.cuda TypedStorage.cuda", "first"),
    _row("torch", "load", "load"),
    *_from("pijit.devices.wrappers", "torch.nn", "DataParallel"),
    *_from("pijit.devices.wrappers", "torch.nn.parallel", "DataParallel data_parallel"),
    _row("torch.utils.data", "DataLoader.__init__", "unpinned"),
    # what names them
    _row("torch", "device Generator", "made here"),
    _row("torch", "set_default_device", "device"),
    _row("torch", "set_autocast_enabled is_autocast_enabled get_autocast_dtype set_autocast_dtype", "device"),
    _row("torch.amp.autocast_mode", "autocast.__init__", "device"),
    _row("torch.amp", "custom_fwd custom_bwd", "device"),
    _row("torch.amp", "GradScaler.__init__", "scaler"),
    *_answers("torch.cuda.amp", "autocast"),
    # the device itself
    _row("torch.NAMED", "is_available is_initialized is_bf16_supported is_tf32_supported", returns(True)),
    _row("torch.NAMED", "device_count", returns(1)),
    _row("torch.KIND", _NOTHING, "nothing"),
    _row("torch.KIND", _ZERO, returns(0)),
    _row("torch.KIND", "get_device_name", returns("cpu")),
    _row("torch.KIND", "get_device_capability", returns((7, 0))),
    _row("torch.KIND", "get_arch_list list_gpu_processes memory_snapshot", returns([])),
    _row("torch.KIND", "memory_summary", returns("")),
    _row("torch.KIND", "can_device_access_peer is_current_stream_capturing", returns(False)),
    *_answers("torch.KIND", "Stream Event StreamContext stream current_stream default_stream set_stream"),
    *_answers("torch.KIND", "device device_of mem_get_info get_device_properties memory_stats"),
    *_answers("torch.KIND", "manual_seed manual_seed_all seed seed_all initial_seed"),
    *_answers("torch.KIND", "get_rng_state get_rng_state_all set_rng_state set_rng_state_all"),
]

DEVICE += [
    # libraries
    _row("safetensors.torch", "load_file", "device"),
    *(_row(module, name, "accelerator") for module, name in _LIGHTNING),
]
_CAPTURABLE = "_get_capturable_supported_devices"

DEVICE += [
    # graphs
    *_from("pijit.devices.graphs", "torch.cuda", "CUDAGraph graph graph_pool_handle"),
    _row("torch.cuda", "make_graphed_callables", "first"),
    *(
        _row(f"torch.optim.{name}", _CAPTURABLE, instead(f"pijit.devices.graphs:{_CAPTURABLE}"))
        for name in ("adadelta", "adam", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop")
    ),
    # what cannot run elsewhere
    _row("torch.utils.cpp_extension", "load load_inline", "no kernels"),
    _row("torch.cuda", "CUDAPluggableAllocator MemPool ExternalStream get_stream_from_external cudart", "refused"),
    _row("torch.cuda", "change_current_allocator caching_allocator_alloc _compile_kernel", "refused"),
    _row("torch.cuda.jiterator", "_create_jit_fn _create_multi_output_jit_fn", "refused"),
    _row("torch.cuda.nccl", "all_reduce reduce broadcast all_gather reduce_scatter init_rank unique_id", "refused"),
    _row("triton.runtime.jit", "JITFunction.run", "refused"),
]

_COLLECTIVES = (
    "all_reduce reduce broadcast barrier monitored_barrier all_gather all_gather_into_tensor reduce_scatter "
    "reduce_scatter_tensor gather scatter all_to_all all_to_all_single"
)
_SINGLE, _WRAPPERS = "pijit.devices.single", "pijit.devices.wrappers"

# `--single-process`
SINGLE = [
    *(
        _row("torch.distributed", name, made_by(f"{_SINGLE}:{name}"))
        for name in ("init_process_group", "new_group", "init_device_mesh")
    ),
    _row("torch.distributed", "is_nccl_available", returns(True)),
    *_from(_SINGLE, "torch.distributed", _COLLECTIVES),
    *_from(_SINGLE, "torch.multiprocessing", "spawn"),
    *_from(_WRAPPERS, "torch.nn.parallel", "DistributedDataParallel"),
    *_from(_WRAPPERS, "torch.distributed.fsdp", "FullyShardedDataParallel FSDPModule fully_shard"),
    *_from(_WRAPPERS, "torch.distributed._composable.fsdp", "FSDPModule fully_shard"),
    _row("torch.nn", "SyncBatchNorm.convert_sync_batchnorm", instead(f"{_WRAPPERS}:convert_sync_batchnorm")),
    _row("torch.nn", "SyncBatchNorm.forward", instead(f"{_WRAPPERS}:sync_batchnorm_forward")),
    _row("torch.utils.data.distributed", "DistributedSampler.__init__", arguments({"num_replicas": 1, "rank": 0})),
    *(
        _row(module, name, arguments({"devices": 1, "num_nodes": 1, "strategy": "auto", "sync_batchnorm": False}))
        for module, name in _LIGHTNING
    ),
]


def own(rows: Mapping[str, object]) -> list[Row]:
    """The rows that a user has written under `[tool.pijit.devices]`: "module:name" and a rule; else `ConfigError`."""
    found = []
    for key, value in rows.items():
        module, colon, name = key.partition(":")
        if not (module and colon and name):
            raise ConfigError(f"[tool.pijit.devices] {key!r} is no 'module:name'")
        found.append(Row(module, name, given(value, f"[tool.pijit.devices] {key!r}")))
    return found
