#!/usr/bin/python3
"""Writes results whose page browser_layout.py looks at, made from golden ones.

usage: layout_run.py GOLDEN FILE
The run did not end. Its first record is there in five cases and once in f32, and has a relation
that was not run.
"""
import copy
import json
import sys


def main():
    golden, path = sys.argv[1:3]
    with open(golden, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][:-1]
    base = lines[1]
    base["relations"][1]["judgement"].update(
        verdict="skipped", code="skipped:time", reason="no time was left", exact_elements=0,
        max_ratio=0., rms_ratio=0., method="")
    del base["relations"][1]["judgement"]["worst"]
    for number in range(4):
        record = copy.deepcopy(base)
        tokens = 256 << number
        record.update(case=f"made/a_long_name_of_a_case/{tokens}",
                      spec=record["spec"].replace("seq_len_q=197", f"seq_len_q={tokens}"))
        lines.append(record)
    single = copy.deepcopy(base)
    single.update(dtype="f32", spec=base["spec"].replace("dtype=f16", "dtype=f32"))
    with open(path, "w", encoding="utf-8") as file:
        for line in lines + [single]:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
