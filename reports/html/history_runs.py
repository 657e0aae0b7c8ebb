#!/usr/bin/python3
"""Makes twenty runs of results, in which flash_cpu is a tenth slower from the twelfth on. All times
come so near to their limits that they can be projected.

usage: history_runs.py RESULTS FOLDER       writes FOLDER/history_01.jsonl ... history_20.jsonl
"""
import json
import os
import sys


def run_of(lines, day):
    for line in lines:
        one = json.loads(line)
        if one["type"] == "header":
            one["started"] = f"2026-03-{day:02}T04:00:00Z"
            one["environment"]["build"]["commit"] = f"commit{day:02}"
        elif one["type"] == "end":
            one["finished"] = f"2026-03-{day:02}T05:00:00Z"
        elif one["impl"] == "flash_cpu" and "time" in one:
            noise = 1 + 0.001 * (day * 7 % 5)
            one["time"]["median_ns"] = 8e6 * noise * (1.1 if day >= 12 else 1.0)
        if "roofline" in one:
            one["roofline"]["least_ns"] = 0.25 * one["time"]["median_ns"]
            one["roofline"]["share"] = 0.25
        yield json.dumps(one) + "\n"


def main():
    results, folder = sys.argv[1:3]
    with open(results, encoding="utf-8") as file:
        lines = file.readlines()
    for day in range(1, 21):
        path = os.path.join(folder, f"history_{day:02}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(run_of(lines, day))


if __name__ == "__main__":
    main()
