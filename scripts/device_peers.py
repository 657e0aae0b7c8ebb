#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on a GPU, which a user would pick instead of a
kernel of this project. Each back end is timed by itself.

usage: device_peers.py SUITE FILE [SECONDS]

SUITE is the JSON file of a suite. Its cases in f16 and bf16 are timed as far as
scaled_dot_product_attention has words for them: dense softmax attention, full or causal, with or
without a bias. Inputs are random normal. What SECONDS leave no time for is named at the end.

FILE becomes JSON lines: case, dtype, back end, nanoseconds of a call (median, lower and upper
quartile) and TFLOP/s, or why the back end does not take the case. A call of PyTorch keeps the host
busy for 15 to 25 us, so where a sample has several calls they are captured in a CUDA graph and
replayed; replayed_runs says how many. Where the capture fails, not_replayed says why, and times of
short work are the host's. The second-level cache is not flushed, as with attest's warm samples.
"""
import json
import statistics
import sys
import time
import warnings

import torch

try:
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    sys.exit("device_peers.py: PyTorch 2.3 or newer is needed, for torch.nn.attention")

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
BACKENDS = {
    name: getattr(SDPBackend, member)
    for name, member in (
        ("cudnn", "CUDNN_ATTENTION"),
        ("flash", "FLASH_ATTENTION"),
        ("efficient", "EFFICIENT_ATTENTION"),
    )
    if hasattr(SDPBackend, member)
}
# The keys of cases that can be timed; the second set says nothing about the problem.
SIZES = {"batch", "num_heads", "seq_len_q", "seq_len_kv", "head_dim"}
REMARKS = {"name", "dtypes", "quick", "source", "note", "misses", "operation", "causal", "bias"}
BLOCK_MS, MOST_RUNS = 2.0, 256  # of a sample
SAMPLES, LEAST_SAMPLES, BUDGET_MS = 25, 3, 100.0


def cases_of(suite):
    """The suite's cases that scaled_dot_product_attention has words for, each with every size."""
    for case in suite["cases"]:
        case = {key: value for key, value in {**suite["defaults"], **case}.items()
                if value is not False}
        case = {"batch": 1, "num_heads": 1, "seq_len_kv": case["seq_len_q"], **case}
        if (case.get("operation") == "softmax" and case.get("causal", True) is True
                and ("causal" not in case or case["seq_len_q"] == case["seq_len_kv"])
                and isinstance(case.get("bias", []), list) and set(case) <= SIZES | REMARKS
                and all(isinstance(case[size], int) for size in SIZES)):
            yield case


def milliseconds(call, times):
    """The time of `times` calls, by the device's clock. The device is kept busy until the host has
    enqueued the first call, or a launch would be part of the time."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(200_000)  # clock cycles, some 100 us
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def capture(call, times):
    """A graph of `times` calls. Throws RuntimeError where they cannot be captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what a first call makes may not be made during a capture
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def time_call(call):
    """Nanoseconds of a call in each sample, and what the record says of replays."""
    call()
    torch.cuda.synchronize()
    times = max(1, min(MOST_RUNS, int(BLOCK_MS / max(milliseconds(call, 1), 1e-3))))
    sample, replays = (lambda: milliseconds(call, times)), {}
    if times > 1:
        try:
            graph = capture(call, times)
            sample, replays = (lambda: milliseconds(graph.replay, 1)), {"replayed_runs": times}
        except RuntimeError as error:
            torch.cuda.synchronize()
            replays = {"not_replayed": str(error).splitlines()[0]}
    samples, spent = [], 0.0
    while len(samples) < LEAST_SAMPLES or (len(samples) < SAMPLES and spent < BUDGET_MS):
        took = sample()
        spent += took
        samples.append(1e6 * took / times)
    return samples, replays


def time_backend(backend, inputs, options):
    """The part of a line that a back end's calls give: times, or why it does not take the case."""
    with sdpa_kernel(backend), warnings.catch_warnings(record=True) as reasons:
        warnings.simplefilter("always")
        call = lambda: torch.nn.functional.scaled_dot_product_attention(*inputs, **options)
        try:
            samples, replays = time_call(call)
        except RuntimeError as error:  # the back end's own words, of which the last say most
            words = [str(error)] + [str(reason.message) for reason in reasons[-1:]]
            return {"unsupported": "; ".join(said.splitlines()[0] for said in words)}
    low, median, high = statistics.quantiles(samples, n=4)
    return {"median_ns": median, "lower_ns": low, "upper_ns": high, "samples": len(samples),
            **replays}


def time_case(case, dtype):
    """Lines of a case in one dtype, one for each back end."""
    torch.manual_seed(1)
    random = lambda *dims: torch.randn(*dims, device="cuda", dtype=DTYPES[dtype])
    batch, heads, dim = case["batch"], case["num_heads"], case["head_dim"]
    queries, keys, causal = case["seq_len_q"], case["seq_len_kv"], "causal" in case
    inputs = [random(batch, heads, tokens, dim) for tokens in (queries, keys, keys)]
    options = {"is_causal": causal}
    if "bias" in case:
        options["attn_mask"] = random(*case["bias"]).expand(batch, heads, queries, keys)
    # Two products for each pair of a query and a key that it sees.
    pairs = queries * (queries + 1) / 2 if causal else queries * keys
    flops = 4.0 * batch * heads * pairs * dim
    for backend, number in BACKENDS.items():
        line = {"type": "peer", "case": case["name"], "dtype": dtype, "backend": backend}
        line.update(time_backend(number, inputs, options))
        if "median_ns" in line:
            line["tflops"] = flops / line["median_ns"] / 1e3
        yield line


def in_words(line):
    if "unsupported" in line:
        return "unsupported: " + line["unsupported"]
    words = f"{line['median_ns'] / 1e3:.1f} us, {line['tflops']:.1f} TFLOP/s"
    return words + (f"; not replayed: {line['not_replayed']}" if "not_replayed" in line else "")


def main(suite_path, path, seconds="1e9"):
    end = time.monotonic() + float(seconds)
    with open(suite_path, encoding="utf-8") as file:
        suite = json.load(file)
    facts = {
        "type": "peers",
        "suite": suite["name"],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
    }
    left_out = []
    with open(path, "w", encoding="utf-8") as out:
        def write(line):
            print(json.dumps(line), file=out, flush=True)
        write(facts)
        for dtype in DTYPES:
            for case in cases_of(suite):
                if dtype not in case["dtypes"]:
                    continue
                if time.monotonic() > end:
                    left_out.append(f"{case['name']} {dtype}")
                    continue
                for line in time_case(case, dtype):
                    write(line)
                    print(f"{case['name']} {dtype} {line['backend']}: {in_words(line)}", flush=True)
        write({"type": "end", "left_out": left_out})
    if left_out:
        print(f"left out after {seconds} s: {', '.join(left_out)}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
