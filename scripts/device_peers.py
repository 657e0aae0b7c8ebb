#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on a GPU, which a user would pick instead of a
kernel of this project. Each back end is timed by itself.

usage: device_peers.py FILE

FILE becomes JSON lines: shape, dtype, back end, nanoseconds (median, lower and upper quartile) and
TFLOP/s. The shapes are those of the suites vit and bev; inputs are random normal. After a warm-up,
events around calls that are enqueued together take the time. The second-level cache is not flushed,
as with attest's warm samples.
"""
import json
import statistics
import sys

import torch

try:
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    sys.exit("device_peers.py: PyTorch 2.3 or newer is needed, for torch.nn.attention")

# batch, heads, query tokens, key tokens, head_dim, causal
SHAPES = {
    "vit_b_16_224 x 32": (32, 12, 197, 197, 64, False),
    "vit_l_16_224 x 32": (32, 16, 197, 197, 64, False),
    "4096 tokens, head_dim 64": (1, 16, 4096, 4096, 64, False),
    "4096 tokens, head_dim 128": (1, 16, 4096, 4096, 128, False),
    "16384 tokens, causal, head_dim 128": (1, 16, 16384, 16384, 128, True),
    "bev 40000 tokens": (1, 8, 40000, 40000, 64, False),
    "lidar 131072 tokens": (1, 2, 131072, 131072, 64, False),
    "decode 1 x 40000": (8, 16, 1, 40000, 128, False),
}
BACKENDS = {
    name: getattr(SDPBackend, member)
    for name, member in (
        ("cudnn", "CUDNN_ATTENTION"),
        ("flash", "FLASH_ATTENTION"),
        ("efficient", "EFFICIENT_ATTENTION"),
    )
    if hasattr(SDPBackend, member)
}
SAMPLES, BUDGET_MS = 15, 300.0


def milliseconds(call, times):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times


def time_backend(backend, q, k, v, causal):
    with sdpa_kernel(backend):
        call = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        call()
        torch.cuda.synchronize()
        once = max(milliseconds(call, 3), 1e-3)
        times = max(1, min(100, int(BUDGET_MS / SAMPLES / once)))
        return [1e6 * milliseconds(call, times) for _ in range(SAMPLES)]


def main(path):
    facts = {
        "type": "peers",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
    }
    with open(path, "w", encoding="utf-8") as out:
        print(json.dumps(facts), file=out, flush=True)
        for name, (batch, heads, queries, keys, dim, causal) in SHAPES.items():
            flops = 4.0 * batch * heads * queries * keys * dim * (0.5 if causal else 1.0)
            for dtype in (torch.float16, torch.bfloat16):
                torch.manual_seed(1)
                q = torch.randn(batch, heads, queries, dim, device="cuda", dtype=dtype)
                k, v = (torch.randn(batch, heads, keys, dim, device="cuda", dtype=dtype)
                        for _ in range(2))
                for backend, number in BACKENDS.items():
                    line = {"type": "peer", "case": name, "backend": backend,
                            "dtype": str(dtype).removeprefix("torch.")}
                    try:
                        samples = time_backend(number, q, k, v, causal)
                    except RuntimeError as error:  # the back end's own words
                        line["unsupported"] = str(error).splitlines()[0]
                    else:
                        low, median, high = statistics.quantiles(samples, n=4)
                        line.update(median_ns=median, lower_ns=low, upper_ns=high,
                                    tflops=flops / median / 1e3)
                    print(json.dumps(line), file=out, flush=True)
                    result = line.get("unsupported") or f"{line['tflops']:.0f} TFLOP/s"
                    print(line["case"], line["dtype"], backend, result, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
