#!/usr/bin/env python3
"""Times the attention of PyTorch and ONNX Runtime on the CPU, and prints them beside attest's
records: the second half of scripts/bench_cpu.sh.

usage: cpu_peers.py time FILE SPEC DTYPE THREADS    SPEC: words such as num_heads=12 seq_len_q=197
       cpu_peers.py table FOLDER                    NAME.DTYPE.THREADS.ROUND[.peers].jsonl

`time` writes a line of JSON for each peer that python3 has and that takes the problem. Inputs are
random normal. `table` takes the best time of all rounds.
"""
import glob
import importlib.util
import json
import os
import sys
import time

BUDGET_S, WARM_UP, MIN_RUNS = 0.5, 2, 3
KNOWN = {"batch", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim",
         "window_right"}


def problem_of(spec):
    """The sizes of a spec line, or None where it has what is not timed here."""
    p = dict(word.split("=", 1) if "=" in word else (word, "1") for word in spec.split())
    if not p.keys() <= KNOWN or p.get("window_right", "0") != "0":
        return None
    causal = "window_right" in p
    p = {key: int(value) for key, value in p.items()}
    p.setdefault("batch", 1)
    p.setdefault("num_heads", 1)
    p.setdefault("num_kv_heads", p["num_heads"])
    p.setdefault("seq_len_kv", p["seq_len_q"])
    return dict(p, causal=causal)


def nanoseconds(run):
    """Times of single runs, after a warm-up."""
    for _ in range(WARM_UP):
        run()
    times, start = [], time.perf_counter_ns()
    while len(times) < MIN_RUNS or time.perf_counter_ns() - start < BUDGET_S * 1e9:
        begin = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - begin)
    return times


def with_torch(p, dtype, threads):
    import torch

    torch.set_num_threads(threads)
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    dims = lambda heads, tokens: (p["batch"], heads, tokens, p["head_dim"])
    q = torch.randn(dims(p["num_heads"], p["seq_len_q"])).to(kind)
    k, v = (torch.randn(dims(p["num_kv_heads"], p["seq_len_kv"])).to(kind) for _ in "kv")
    grouped = {"enable_gqa": True} if p["num_heads"] != p["num_kv_heads"] else {}
    attend = torch.nn.functional.scaled_dot_product_attention
    with torch.inference_mode():
        run = lambda: attend(q, k, v, is_causal=p["causal"], **grouped)
        return f"PyTorch {torch.__version__}", nanoseconds(run)


def with_onnxruntime(p, dtype, threads):
    if dtype == "bf16" or p["num_heads"] != p["num_kv_heads"]:
        return None
    import numpy
    import onnxruntime
    from onnx import TensorProto, helper

    kind, element = {"f32": (TensorProto.FLOAT, numpy.float32),
                     "f16": (TensorProto.FLOAT16, numpy.float16)}[dtype]
    width = p["num_heads"] * p["head_dim"]
    dims = lambda tokens: [p["batch"], tokens, width]
    tokens = {"q": p["seq_len_q"], "k": p["seq_len_kv"], "v": p["seq_len_kv"]}
    node = helper.make_node("MultiHeadAttention", list("qkv"), ["o"], domain="com.microsoft",
                            num_heads=p["num_heads"], unidirectional=int(p["causal"]))
    graph = helper.make_graph(
        [node], "attention",
        [helper.make_tensor_value_info(name, kind, dims(n)) for name, n in tokens.items()],
        [helper.make_tensor_value_info("o", kind, dims(p["seq_len_q"]))])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    random, binding = numpy.random.default_rng(1), session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    for name, n in tokens.items():
        binding.bind_ortvalue_input(name, value(random.standard_normal(dims(n)).astype(element)))
    binding.bind_ortvalue_output("o", value(numpy.zeros(dims(p["seq_len_q"]), element)))
    run = lambda: session.run_with_iobinding(binding)
    return f"ONNX Runtime {onnxruntime.__version__}", nanoseconds(run)


def time_peers(path, spec, dtype, threads):
    p = problem_of(spec)
    with open(path, "w", encoding="utf-8") as out:
        for package, call in (("torch", with_torch), ("onnxruntime", with_onnxruntime)):
            if p is None or importlib.util.find_spec(package) is None:
                continue
            try:
                timed = call(p, dtype, threads)
            except Exception as error:  # a peer may refuse a problem in any way
                print(f"{package}: {spec} {dtype}: {error}", file=sys.stderr)
                continue
            if timed:
                print(json.dumps({"type": "peer", "impl": timed[0], "samples_ns": timed[1]}),
                      file=out)


def read(folder):
    """{(name, dtype, threads): {"flops", "times": {who: ns}, "fma_gflops"}} and the processor."""
    shapes, processor = {}, "an unknown processor"
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        name, dtype, threads = os.path.basename(path).split(".")[:3]
        shape = shapes.setdefault((name, dtype, int(threads)), {"times": {}, "fma_gflops": 0.0})
        for text in open(path, encoding="utf-8"):
            line = json.loads(text)
            if line["type"] == "header":
                processor = line["environment"]["cpu"]["model"]
                limit = float(line["environment"]["limits"]["all_fma_gflops"])
                shape["fma_gflops"] = max(shape["fma_gflops"], limit)
                continue
            if line["type"] == "result":
                shape["flops"] = line["flops"]
            if line["type"] == "peer":
                times = line["samples_ns"]
            elif line["type"] == "result" and line["verdict"] == "pass":
                times = [line["time"]["min_ns"]]
            else:
                continue
            best = min(times)
            shape["times"][line["impl"]] = min(best, shape["times"].get(line["impl"], best))
    return shapes, processor


def best_of(rates):
    """The name and the rate of the fastest, ("", 0) of none."""
    return max(rates.items(), key=lambda item: item[1], default=("", 0.0))


def ratio(rate, other):
    return f"{rate / other:.2f}" if rate and other else ""


def table(folder):
    shapes, processor = read(folder)
    print(f"GFLOP/s on {processor}, best of all rounds; of peak: share of what as many threads")
    print("reach in float32 multiply-adds; ratio: the best of ours over the best peer. What")
    print("rounds to bf16 has columns of its own, with its rate over ours and over the best peer\n")
    print("| shape | dtype | threads | ours | of peak | peers | ratio | bf16 | / ours | / peer |")
    print("| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for (name, dtype, threads), shape in sorted(shapes.items()):
        if "flops" not in shape:
            print(f"| {name} | {dtype} | {threads} | not timed | | | | | | |")
            continue
        rates = {who: shape["flops"] / ns for who, ns in shape["times"].items()}
        ours = {who: rate for who, rate in rates.items() if who.endswith("_cpu")}
        bf16 = {who: rate for who, rate in rates.items() if who.endswith("_cpu_bf16")}
        peers = {who: rate for who, rate in rates.items() if who not in ours and who not in bf16}
        who, best = best_of(ours)
        _, low = best_of(bf16)
        _, peer = best_of(peers)
        others = ", ".join(f"{who} {rate:.1f}" for who, rate in sorted(peers.items()))
        peak = f"{best / shape['fma_gflops']:.0%}" if best and shape["fma_gflops"] else ""
        print(f"| {name} | {dtype} | {threads} | " + (f"{who} {best:.1f}" if best else "") +
              f" | {peak} | {others} | {ratio(best, peer)} | " + (f"{low:.1f}" if low else "") +
              f" | {ratio(low, best)} | {ratio(low, peer)} |")


def main(arguments):
    if len(arguments) == 5 and arguments[0] == "time":
        time_peers(arguments[1], arguments[2], arguments[3], int(arguments[4]))
    elif len(arguments) == 2 and arguments[0] == "table":
        table(arguments[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
