#!/usr/bin/env python3
"""Times the attention of PyTorch and ONNX Runtime on the CPU, and prints them beside attest's
records: the second half of scripts/bench_cpu.sh.

usage: cpu_peers.py time FILE SPEC DTYPES THREADS BUDGET
       cpu_peers.py table FOLDER DTYPES

SPEC: words such as num_heads=12 seq_len_q=197; DTYPES: f32,bf16. `time` writes a line of JSON for
each dtype and peer that python3 has and that takes the problem; BUDGET: seconds of timed runs of
each. Inputs are random normal. `table` reads NAME.THREADS.ROUND[.peers].jsonl. A rate is that of
the best time of all rounds; a ratio is the median of the ratios within each round.
"""
import glob
import importlib.util
import json
import os
import statistics
import sys
import time

WARM_UP, MIN_RUNS = 2, 3
KNOWN = {"batch", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim",
         "window_right", "bias"}


def problem_of(spec):
    """The sizes of a spec line, or None where it has what is not timed here."""
    p = dict(word.split("=", 1) if "=" in word else (word, "1") for word in spec.split())
    if not p.keys() <= KNOWN or p.get("window_right", "0") != "0":
        return None
    causal = "window_right" in p
    bias = json.loads(p.pop("bias", "null"))
    p = {key: int(value) for key, value in p.items()}
    p.setdefault("batch", 1)
    p.setdefault("num_heads", 1)
    p.setdefault("num_kv_heads", p["num_heads"])
    p.setdefault("seq_len_kv", p["seq_len_q"])
    return dict(p, causal=causal, bias=bias)


def nanoseconds(run, budget_s):
    """Times of single runs, after a warm-up: for budget_s at least, and MIN_RUNS."""
    for _ in range(WARM_UP):
        run()
    times, start = [], time.perf_counter_ns()
    while len(times) < MIN_RUNS or time.perf_counter_ns() - start < budget_s * 1e9:
        begin = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - begin)
    return times


def with_torch(p, dtype, threads, budget_s):
    import torch

    torch.set_num_threads(threads)
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    dims = lambda heads, tokens: (p["batch"], heads, tokens, p["head_dim"])
    q = torch.randn(dims(p["num_heads"], p["seq_len_q"])).to(kind)
    k, v = (torch.randn(dims(p["num_kv_heads"], p["seq_len_kv"])).to(kind) for _ in "kv")
    bias = torch.randn(p["bias"]).to(kind) if p["bias"] else None
    grouped = {"enable_gqa": True} if p["num_heads"] != p["num_kv_heads"] else {}
    attend = torch.nn.functional.scaled_dot_product_attention
    with torch.inference_mode():
        run = lambda: attend(q, k, v, attn_mask=bias, is_causal=p["causal"], **grouped)
        return f"PyTorch {torch.__version__}", nanoseconds(run, budget_s)


def with_onnxruntime(p, dtype, threads, budget_s):
    if dtype == "bf16" or p["num_heads"] != p["num_kv_heads"]:
        return None
    import numpy
    import onnxruntime
    from onnx import TensorProto, helper

    kind, element = {"f32": (TensorProto.FLOAT, numpy.float32),
                     "f16": (TensorProto.FLOAT16, numpy.float16)}[dtype]
    width = p["num_heads"] * p["head_dim"]
    dims = lambda tokens: [p["batch"], tokens, width]
    inputs = {"q": dims(p["seq_len_q"]), "k": dims(p["seq_len_kv"]), "v": dims(p["seq_len_kv"])}
    names = list("qkv")
    if p["bias"]:
        inputs["bias"] = p["bias"]
        names += ["", "", "bias"]  # without a bias of projections and a mask of keys
    node = helper.make_node("MultiHeadAttention", names, ["o"], domain="com.microsoft",
                            num_heads=p["num_heads"], unidirectional=int(p["causal"]))
    graph = helper.make_graph(
        [node], "attention",
        [helper.make_tensor_value_info(name, kind, size) for name, size in inputs.items()],
        [helper.make_tensor_value_info("o", kind, dims(p["seq_len_q"]))])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    random, binding = numpy.random.default_rng(1), session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    for name, size in inputs.items():
        binding.bind_ortvalue_input(name, value(random.standard_normal(size).astype(element)))
    binding.bind_ortvalue_output("o", value(numpy.zeros(dims(p["seq_len_q"]), element)))
    run = lambda: session.run_with_iobinding(binding)
    return f"ONNX Runtime {onnxruntime.__version__}", nanoseconds(run, budget_s)


def time_peers(path, spec, dtypes, threads, budget_s):
    p = problem_of(spec)
    peers = [call for package, call in (("torch", with_torch), ("onnxruntime", with_onnxruntime))
             if p is not None and importlib.util.find_spec(package)]
    with open(path, "w", encoding="utf-8") as out:
        for dtype in dtypes.split(","):
            for call in peers:
                try:
                    timed = call(p, dtype, threads, budget_s)
                except Exception as error:  # a peer may refuse a problem in any way
                    print(f"{call.__name__}: {spec} {dtype}: {error}", file=sys.stderr)
                    continue
                if timed:
                    print(json.dumps({"type": "peer", "impl": timed[0], "dtype": dtype,
                                      "threads": threads, "samples_ns": timed[1]}), file=out)


def read(folder, dtypes):
    """{(name, dtype, threads): {"flops", "times": {who: {round: best ns}}, "fma_gflops"}}, the
    processor, and {who: what its notes say of which way it took}."""
    shapes, processor, notes = {}, "an unknown processor", {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        name, threads, turn = os.path.basename(path).split(".")[:3]
        of_file = {dtype: shapes.setdefault((name, dtype, int(threads)),
                                            {"times": {}, "fma_gflops": 0.0})
                   for dtype in dtypes.split(",")}
        for text in open(path, encoding="utf-8"):
            line = json.loads(text)
            if line["type"] == "header":
                processor = line["environment"]["cpu"]["model"]
                limit = float(line["environment"]["limits"]["all_fma_gflops"])
                for shape in of_file.values():
                    shape["fma_gflops"] = max(shape["fma_gflops"], limit)
            if line["type"] not in ("peer", "result"):
                continue
            shape = of_file[line["dtype"]]
            if line["type"] == "peer":
                times = line["samples_ns"]
            else:
                shape["flops"] = line["flops"]
                if line["verdict"] != "pass":
                    continue
                times = [line["time"]["min_ns"]]
                for note in line["notes"]:
                    if "partition" in note:
                        notes.setdefault(line["impl"], set()).add(note)
            shape["times"].setdefault(line["impl"], {})[turn] = min(times)
    return shapes, processor, notes


def best_of(rates):
    """The name and the rate of the fastest, ("", 0) of none."""
    return max(rates.items(), key=lambda item: item[1], default=("", 0.0))


def number(rate):
    return f"{rate:.1f}" if rate else ""


def fastest(times, of):
    """{round: ns} of the fastest of those that are `of`."""
    best = {}
    for who, rounds in times.items():
        for turn, ns in rounds.items() if of(who) else ():
            best[turn] = min(ns, best.get(turn, ns))
    return best


def ratio(ours, others):
    """How many times as fast ours are: the median over the rounds that both have."""
    both = ours.keys() & others.keys()
    return f"{statistics.median(others[turn] / ours[turn] for turn in both):.2f}" if both else ""


def is_ours(who):
    return who.endswith("_cpu")


def is_of_bf16(who):
    return who.endswith("_cpu_bf16")


def is_peer(who):
    return not is_ours(who) and not is_of_bf16(who)


def row_of(shape, peers):
    """The cells of a shape behind its name, dtype and threads."""
    if "flops" not in shape:
        return ["not timed"] + [""] * (len(peers) + 5)
    times = shape["times"]
    rates = {who: shape["flops"] / min(rounds.values()) for who, rounds in times.items()}
    who, best = best_of({who: rate for who, rate in rates.items() if is_ours(who)})
    _, low = best_of({who: rate for who, rate in rates.items() if is_of_bf16(who)})
    ours, of_bf16, peer = (fastest(times, of) for of in (is_ours, is_of_bf16, is_peer))
    peak = f"{best / shape['fma_gflops']:.0%}" if best and shape["fma_gflops"] else ""
    return ([f"{who} {best:.1f}" if best else "", peak] +
            [number(rates.get(name)) for name in peers] +
            [ratio(ours, peer), number(low), ratio(of_bf16, ours), ratio(of_bf16, peer)])


def table(folder, dtypes):
    shapes, processor, notes = read(folder, dtypes)
    peers = sorted({who for shape in shapes.values() for who in shape["times"] if is_peer(who)})
    print(f"GFLOP/s on {processor}, best of all rounds; of peak: share of what as many threads")
    print("reach in float32 multiply-adds; ratio: the best of ours over the best peer, the median")
    print("of the rounds. What rounds to bf16 has columns of its own, with its ratios to ours and")
    print("to the best peer\n")
    head = (["shape", "dtype", "threads", "ours", "of peak"] + peers +
            ["ratio", "bf16", "/ ours", "/ peer"])
    print("| " + " | ".join(head) + " |")
    print("| --- | --- | ---: | --- |" + " ---: |" * (len(head) - 4))
    for (name, dtype, threads), shape in sorted(shapes.items()):
        print("| " + " | ".join([name, dtype, str(threads)] + row_of(shape, peers)) + " |")
    for who, said in sorted(notes.items()):
        print("\n" + "\n".join(f"{who}: {note}" for note in sorted(said)))


def main(arguments):
    if len(arguments) == 6 and arguments[0] == "time":
        time_peers(arguments[1], arguments[2], arguments[3], int(arguments[4]),
                   float(arguments[5]))
    elif len(arguments) == 3 and arguments[0] == "table":
        table(arguments[1], arguments[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
