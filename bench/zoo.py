"""Sixty models in small configurations with random weights: are they right, recorded whole, and faster?

    python bench/zoo.py [--models bert gpt2 ...] [--json FILE]

Each model runs in a process of its own, on one thread, in evaluation mode and without gradients: twenty eager calls, a
first jitted call, then at least thirty rounds of an eager call and a jitted one of an equal model, in turn. Printed are
the largest difference of any output (0: every bit is equal), opaque calls and stops of the trace, the time of the first call and the median
ratio of a round, both relative to eager.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WARM_CALLS, ROUNDS, SECONDS = 20, 30, 8.0
LENGTH, IMAGE = 16, 32

TEXT = dict(
    vocab_size=128, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
    max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
GROUPED = TEXT | dict(num_key_value_heads=2, head_dim=8)
PICTURE = dict(
    hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, image_size=IMAGE, patch_size=8
)  # fmt: skip
PAIR = dict(
    vocab_size=128, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip

# type in transformers: what its small configuration says, and what it is called with
TRANSFORMERS: dict[str, tuple[dict[str, Any], str]] = {
    **{
        name: (TEXT, "text")
        for name in (
            "bert", "roberta", "camembert", "xlm-roberta", "distilbert", "electra", "mpnet", "ernie", "layoutlm",
            "roformer", "nystromformer", "megatron-bert", "data2vec-text", "gpt2", "gpt_neox", "opt", "biogpt",
            "xglm", "phi", "falcon",
        )
    },  # fmt: skip
    **{
        name: (GROUPED, "text")
        for name in (
            "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "olmo", "olmo2", "cohere", "granite",
            "starcoder2", "smollm3", "glm", "helium",
        )
    },  # fmt: skip
    "gptj": (TEXT | {"rotary_dim": 4}, "text"),
    "codegen": (TEXT | {"rotary_dim": 4}, "text"),
    "stablelm": (TEXT | {"num_key_value_heads": 4, "partial_rotary_factor": 0.5}, "text"),
    "albert": (TEXT | {"embedding_size": 16}, "text"),
    "bloom": (TEXT | {"n_head": 4, "n_layer": 4}, "text"),
    "mpt": (TEXT | {"d_model": 32, "n_heads": 4, "n_layers": 4}, "text"),
    "gpt_neo": (TEXT | {"num_layers": 4, "attention_types": [[["global", "local"], 2]]}, "text"),
    "deberta-v2": (TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "text"),
    "mobilebert": (TEXT | {"embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32}, "text"),
    "squeezebert": (TEXT | {"embedding_size": 32}, "text"),
    "fnet": (TEXT, "text"),
    "t5": (dict(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0), "pair"),
    "bart": (PAIR, "pair"),
    "pegasus": (PAIR, "pair"),
    "marian": (PAIR, "pair"),
    "m2m_100": (PAIR, "pair"),
    "vit": (PICTURE, "image"),
    "deit": (PICTURE, "image"),
    "beit": (PICTURE, "image"),
    "dinov2": (PICTURE, "image"),
    "swin": (dict(image_size=IMAGE, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), "image"),
    "convnext": (dict(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 2, 1]), "image"),
    "resnet": (dict(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1]), "image"),
    "regnet": (dict(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], groups_width=8), "image"),
    "segformer": (
        dict(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
        "image",
    ),
}  # fmt: skip


def inputs(kind: str, seed: int = 0) -> dict[str, Any]:
    """Arguments of a model: token numbers of shape (1, LENGTH), or pixels of shape (1, 3, IMAGE, IMAGE)."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, 128, (1, LENGTH), generator=generator)
    if kind == "image":
        return {"pixel_values": torch.randn(1, 3, IMAGE, IMAGE, generator=generator)}
    return {"input_ids": tokens} | ({"decoder_input_ids": tokens[:, :8]} if kind == "pair" else {})


def build(name: str) -> Any:
    """A fresh model with random weights; two of one name are equal."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    return AutoModel.from_config(AutoConfig.for_model(name, **TRANSFORMERS[name][0])).eval()


def tensors(thing: Any) -> Iterator[Any]:
    """All tensors in the outputs of a model, caches included."""
    import torch

    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for item in thing:
            yield from tensors(item)
    elif isinstance(thing, dict):
        for item in thing.values():
            yield from tensors(item)
    elif type(thing).__module__.startswith("transformers"):
        yield from tensors(vars(thing))


def difference(left: Any, right: Any) -> float:
    """Largest difference between two outputs; 0 if every bit is equal, inf if their kinds differ."""
    import torch

    pairs = list(tensors(left)), list(tensors(right))
    if len(pairs[0]) != len(pairs[1]) or not pairs[0]:
        return math.inf
    largest = 0.0
    for a, b in zip(*pairs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        left_bits, right_bits = (part.contiguous().reshape(-1).view(torch.uint8) for part in (a, b))
        if not torch.equal(left_bits, right_bits):
            largest = max(largest, float((a.double() - b.double()).abs().max()), sys.float_info.min)
    return largest


def measure(name: str) -> dict[str, Any]:
    """Everything of one model, in this process."""
    warnings.filterwarnings("ignore")
    import torch

    import pijit
    from pijit import _core

    torch.set_num_threads(1)
    eager, twin, fast = build(name), build(name), build(name)
    arguments = inputs(TRANSFORMERS[name][1])
    with torch.no_grad():
        warm = [seconds(lambda: eager(**arguments)) for _ in range(WARM_CALLS)]
        for _ in range(5):
            twin(**arguments)
        pijit.jit(fast)
        first = seconds(lambda: fast(**arguments))
        _core.hook_remove()
        gaps = []
        for seed in range(4):
            expected = eager(**inputs(TRANSFORMERS[name][1], seed))
            _core.hook_install()
            gaps.append(difference(expected, fast(**inputs(TRANSFORMERS[name][1], seed))))
            _core.hook_remove()
        times: dict[str, list[float]] = {"eager": [], "twin": [], "jitted": []}
        start = time.perf_counter()
        while len(times["eager"]) < ROUNDS or time.perf_counter() - start < SECONDS:
            times["eager"].append(seconds(lambda: eager(**arguments)))
            times["twin"].append(seconds(lambda: twin(**arguments)))
            _core.hook_install()
            times["jitted"].append(seconds(lambda: fast(**arguments)))
            _core.hook_remove()
    traces = pijit.traces(fast)
    median = statistics.median(times["eager"])
    return {
        "model": name,
        "difference": max(gaps),
        "traces": len(traces),
        "opaque": sum(trace.opaque_calls for trace in traces),
        "exits": sum(trace.exits for trace in traces),
        "stop": "" if not traces else str(traces[-1].stop or ""),
        "eager ms": 1e3 * median,
        "first": first / median,
        "warm": statistics.median(warm) / median,
        "steady": statistics.median(map(ratio, times["jitted"], times["eager"])),
        "noise": statistics.median(map(ratio, times["twin"], times["eager"])),
    }


def ratio(a: float, b: float) -> float:
    """Of two times."""
    return a / b


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Measures the models, one process each, and prints a table and its summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(TRANSFORMERS), default=list(TRANSFORMERS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    rows = []
    for name in options.models:
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(
                f"{name:16} failed: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:150]}",
                flush=True,
            )
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        print(
            f"{name:16} difference {row['difference']:.1g}, traces {row['traces']}, opaque {row['opaque']:2}, exits {row['exits']}, eager "
            f"{row['eager ms']:6.2f} ms, first {row['first']:5.1f}, steady {row['steady']:.3f} ({row['noise']:.3f}) {row['stop'][:110]}",
            flush=True,
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    steady = [row["steady"] for row in rows]
    print(
        f"{len(rows)} of {len(options.models)} models ran; right {sum(row['difference'] == 0 for row in rows)}, without opaque "
        f"calls {sum(row['opaque'] == 0 and not row['stop'] for row in rows)}, geometric mean {statistics.geometric_mean(steady):.3f}, "
        f"worst {max(steady):.3f}"
    )


if __name__ == "__main__":
    main()
