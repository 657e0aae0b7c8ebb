"""Compares what two machines captured: the inputs bit for bit, and the goldens by their distance.

usage: golden_distance.py FOLDER OTHER_FOLDER MOST

Both folders are what `attest capture` wrote of the same cases. The distance of two numbers is their
difference in units of 2^-52 of the largest number of the row (the last dim). Prints a line for each
case that differs more than MOST units or in its inputs, and one with the largest distance. Exit
code 1 if there is such a case, or if the folders have different cases or none.
"""
import array
import json
import math
import pathlib
import sys


def read_tensors(path):
    """The float64 tensors of a .safetensors file: name -> (width of a row, numbers)."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, tensor in json.loads(content[8:start]).items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            numbers = array.array("d", content[start + begin:start + end])
            tensors[name] = (tensor["shape"][-1] if name != "lse" else 1, numbers)
    return tensors


def distance(width, first, second):
    """The largest distance of two tensors, in units; infinity if only one has a NaN or infinity."""
    largest = 0.0
    for row in range(0, len(first), width):
        a, b = first[row:row + width], second[row:row + width]
        scale = max((abs(x) for x in a if math.isfinite(x)), default=0.0)
        for x, y in zip(a, b):
            if x != y and not (math.isnan(x) and math.isnan(y)):
                apart = abs(x - y) / scale if scale > 0 else math.inf
                largest = max(largest, apart * 2.0**52 if math.isfinite(apart) else math.inf)
    return largest


def main(first, second, most):
    cases = sorted(path.parent.relative_to(first) for path in first.rglob("case.json"))
    bad = cases == [] or cases != sorted(path.parent.relative_to(second)
                                         for path in second.rglob("case.json"))
    if bad:
        print(f"{first} and {second} have not the same cases, or none")
        return 1
    farthest, exact, tensors = 0.0, 0, 0
    for case in cases:
        inputs = [(folder / case / "inputs.safetensors").read_bytes() for folder in (first, second)]
        if inputs[0] != inputs[1]:
            print(f"{case}: the inputs differ")
            bad = True
        ours, theirs = (read_tensors(folder / case / "outputs.safetensors")
                        for folder in (first, second))
        for name, (width, numbers) in ours.items():
            apart = distance(width, numbers, theirs[name][1])
            farthest, exact, tensors = max(farthest, apart), exact + (apart == 0), tensors + 1
            if apart > most:
                print(f"{case}: {name} differs by {apart:.3g} units, more than {most:g}")
                bad = True
    print(f"goldens: {len(cases)} cases, {exact} of {tensors} tensors equal bit for bit, the "
          f"others within {farthest:.3g} units of 2^-52 of their row's largest number")
    return int(bad)


sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])))
