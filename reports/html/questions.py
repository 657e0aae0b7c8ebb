#!/usr/bin/python3
"""Results and questions for Decide, made from a seed, and the answers of attest choose to them.

usage: questions.py write GOLDEN FOLDER
Writes FOLDER/first.jsonl and FOLDER/second.jsonl: results of two machines, made from the record of
GOLDEN that was timed first. browser_decide.py asks the page and the command. FOLDER/scaling.jsonl
has two implementations that cross at 2,000 tokens. FOLDER/energy.jsonl has GOLDEN's records with
the energy of a run, FOLDER/tokens.jsonl with a sweep and a grid.
"""
import copy
import json
import os
import random
import shlex
import subprocess
import sys

TOKENS = (250, 1024, 4096, 16384)
TIMES_MS = (1, 5, 20, 50, 80)  # of records and of questions, so that some are equal
MEMORY = (0, 2 ** 20, 3 * 2 ** 20, 64 * 2 ** 20)
ERRORS = (0.1, 0.3, 0.5, 0.9)
VERDICTS = {"fail": "fail:tolerance", "crash": "crash:signal", "unsupported": "unsupported:query",
            "error": "error:runtime", "skipped": "skipped:time"}
REASONS = {"unsupported": ("no f32", "no f32", "too many tokens"), "skipped": ("too long",)}
ESTIMATES_MS = (40, 400, 4000)


def change_time(time, draw):
    median = draw.choice(TIMES_MS) * 1e6
    time.update(median_ns=median, median_low_ns=median * draw.choice((0.9, 1)),
                median_high_ns=median * 1.1, max_ns=median * draw.choice((1, 1.2, 4)),
                cold_median_ns=0.0, cold_samples_ns=[])
    if draw.random() < 0.2:
        time.update(cold_median_ns=median * 2, cold_samples_ns=[median, median * 4])


def memory_of(draw):
    kind = draw.random()
    memory = {"tensor_bytes": 1e6, "workspace_bytes": draw.choice(MEMORY)}
    if kind < 0.7:
        memory["peak_bytes"] = draw.choice(MEMORY)
    if kind < 0.2:
        memory["pool_peak_bytes"] = draw.choice(MEMORY)
    if kind < 0.1:
        memory["unseen"] = "streams"
    return memory


def make_record(base, draw, tokens, head_dim, dtype, impl, threads):
    record = copy.deepcopy(base)
    spec = f"softmax dtype={dtype} seq_len_q={tokens} head_dim={head_dim}"
    record.update(suite="made", case=f"n{tokens}_d{head_dim}", dtype=dtype, impl=impl,
                  threads=threads, max_ratio=draw.choice(ERRORS + ("nan",)), spec=spec,
                  memory=memory_of(draw), device=draw.choice(("cpu", "cpu", "cpu", "cuda")),
                  repro=f"attest repro --impl {impl} --inputs 'a b' --threads {threads} '{spec}'")
    change_time(record["time"], draw)
    # What an implementation refuses, it mostly refuses at every size.
    if impl == "d" and dtype == "f32" or draw.random() < 0.3:
        record["verdict"] = "unsupported" if impl == "d" else draw.choice(list(VERDICTS))
        record["code"] = VERDICTS[record["verdict"]]
        record["reason"] = draw.choice(REASONS.get(record["verdict"], ("wrong",)))
        record["estimated_ns"] = draw.choice(ESTIMATES_MS) * 1e6
    if draw.random() < 0.5:  # judged in part
        record["relations"] = []
    if record["verdict"] != "pass" or draw.random() < 0.1:
        del record["time"]
    return record


def twins_of(records, draw):
    """Cases that have the name of another case, and other inputs; some times are not finite."""
    twins = copy.deepcopy(records[::5])
    for twin in twins:
        twin["inputs"] = "others"
        if "time" in twin:
            change_time(twin["time"], draw)
            twin["time"].update(draw.choice(({}, {"max_ns": "nan"}, {"median_low_ns": "inf"},
                                             {"median_ns": "nan"}, {"cold_median_ns": "inf"})))
    return twins


def write(golden, folder):
    with open(golden, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    base = next(line for line in lines if "time" in line)
    for number, name in enumerate(("first", "second")):
        draw = random.Random(20261125 + number)
        header = copy.deepcopy(lines[0])
        header["environment"]["cpu"]["model"] = f"The {name} CPU"
        records = [make_record(base, draw, tokens, head_dim, dtype, impl, threads)
                   for tokens in TOKENS for head_dim in (32, 64) for dtype in ("f16", "f32")
                   for impl in "abcd" for threads in (1, 2)
                   if draw.random() < 0.8 and (threads == 1 or impl == "a")]
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
            for line in [header, *records, *records[::9], *twins_of(records, draw), lines[-1]]:
                file.write(json.dumps(line) + "\n")


def write_scaling(golden, path):
    with open(golden, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    base = next(line for line in lines if "time" in line)
    records = []
    for tokens in (0, 512, 1024, 4096, 8192):
        for impl, median in (("square", tokens ** 2 + 10.), ("line", 2000. * tokens + 10)):
            record = copy.deepcopy(base)
            record.update(suite="made", case=f"dense/{tokens}", impl=impl, sweep={
                "sweep": "dense", "over": "seq_len_q" if tokens else "", "value": tokens,
                "deadline_ns": 5e7})
            record["time"].update(median_ns=median, median_low_ns=median, median_high_ns=median)
            records.append(record)
    with open(path, "w", encoding="utf-8") as file:
        for line in [lines[0], *records, lines[-1]]:
            file.write(json.dumps(line) + "\n")


def write_energy(golden, path):
    with open(golden, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        if "time" in line:
            joules = 20 * line["time"]["median_ns"] * 1e-9
            refused = dict(sensor="nvml", covers="GPU", refusal="answered: no access", method="",
                           window_ns=0, runs=1, joules=0, run_joules=0, idle_watts_before=0,
                           idle_watts_after=0, net_run_joules=0)
            line["energy"] = [refused, dict(
                refused, sensor="rapl", covers="package 0", refusal="", method="counter",
                window_ns=1e9, runs=10, joules=10 * joules, run_joules=joules, idle_watts_before=5,
                idle_watts_after=5, net_run_joules=joules * 0.75)]
            line["energy"].append(dict(line["energy"][1], covers="dram", net_run_joules=-0.01))
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


def write_tokens(golden, path):
    """The first record has a sweep in patches, the second a grid in shifted windows, and, as if it
    were of linear attention, a distance from softmax."""
    with open(golden, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    picture = dict(type="tokens", inputs="lidar:curve=z", tokens=2592, cell_metres=1.0,
                   cells=["00  0a  ", "  i0    "])
    first, second = [line for line in lines if line["type"] == "result"][:2]
    first.update(inputs=picture["inputs"], spec=first["spec"] + " patch_size=1296")
    second["spec"] = ("softmax seq_len_q=24 head_dim=16 grid_height=4 grid_width=6 "
                      "window_height=2 window_width=3 shift_y=1")
    second["softmax_distance"] = 0.125
    with open(path, "w", encoding="utf-8") as file:
        for line in [lines[0], picture, *lines[1:]]:
            file.write(json.dumps(line) + "\n")


def questions(cases):
    """200 questions, of which each five share their limits: (limits, five cases)."""
    draw = random.Random(7)
    asked = []
    for _ in range(40):
        limits = {"tokens": draw.choice((None, draw.randint(100, 20000), draw.choice(TOKENS))),
                  "deadline": draw.choice((None, *TIMES_MS)),
                  "memory": draw.choice((None, 1, 2, 3, 64)),
                  "error": draw.choice((None, *ERRORS))}
        asked.append((limits, draw.sample(cases, 5)))
    return asked


def options(limits):
    """The limits as the command takes them."""
    words = []
    for name, option, unit in (("tokens", "--tokens", ""), ("deadline", "--deadline", "ms"),
                               ("memory", "--memory", "MiB"), ("error", "--max-error-ratio", "")):
        if limits[name] is not None:
            words += [option, f"{limits[name]}{unit}"]
    return words


def command_answers(attest, files, limits):
    """The answers of the command: those of each case, or with tokens of each family."""
    done = subprocess.run([attest, "choose", *files, "--format", "json", *options(limits)],
                          stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)["choices"]


def run(command, attest, folder):
    """The answers of a command that the page shows, which names files of this folder."""
    words = [os.path.abspath(attest), *shlex.split(command)[1:], "--format", "json"]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)["choices"]


def answer_for(choices, case):
    """The answer of a case, as the command has it, with its candidates."""
    suite, name, dtype, machine, spec, inputs = case
    head_dim = "head_dim=" + name.split("_d")[1]
    found, = [one for one in choices if (one["suite"], one["dtype"], one["machine"]) ==
              (suite, dtype, machine) and
              ([one["case"], one["problem"], one["inputs"]] == [name, spec, inputs]
               if "case" in one else one["problem"].endswith(head_dim))]
    return found


if __name__ == "__main__":
    write(*sys.argv[2:4])
    write_scaling(sys.argv[2], os.path.join(sys.argv[3], "scaling.jsonl"))
    write_energy(sys.argv[2], os.path.join(sys.argv[3], "energy.jsonl"))
    write_tokens(sys.argv[2], os.path.join(sys.argv[3], "tokens.jsonl"))
