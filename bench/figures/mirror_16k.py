"""Bytes mirrored per CPU second of a fetcher, 16 KiB batches, against the reference loop.

The reference is the best of {write per receive, 1 MiB filled} x {256 KiB, 1 MiB} (bench/reference, frozen).
1000 MiB a run: below what makes the kernel write back. The first round warms up and is not counted.
"""
import os
import random
import statistics
import subprocess

from .figure import Row, empty, show, touch_memory

NAME = "mirror-16k"
WHAT = "bytes per CPU second of the fetcher's thread against the reference loop"
GOAL = 0.7
REFERENCES = [("receive", 256), ("receive", 1024), ("fill", 256), ("fill", 1024)]


def run(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    size, cpu, wall = out.split()
    return int(size) / float(cpu) / 1e9, int(size) / float(wall) / 1e9


def measure(bench):
    mib = 300 if bench.quick else 1000
    commands = {f"reference {mode} {kib} KiB":
                [os.path.join(bench.binaries, "reference_loop"), mode, str(kib), str(mib), bench.data]
                for mode, kib in REFERENCES}
    commands["mirror"] = [os.path.join(bench.binaries, "mirror_fetch"), str(mib), bench.data]
    cpu = {name: [] for name in commands}
    wall = {name: [] for name in commands}
    order = list(commands)
    for number in range(bench.rounds + 1):
        random.Random(number).shuffle(order)  # nobody always follows the same neighbour
        for name in order:
            empty(bench.data)
            touch_memory()
            per_cpu, per_wall = run(commands[name])
            if number > 0:
                cpu[name].append(per_cpu)
                wall[name].append(per_wall)
    for name in commands:
        show(name, cpu[name], "GB per CPU second")
    for name in commands:
        show(name + ", rate", wall[name], "GB/s")
    best = max((name for name in commands if name != "mirror"),
               key=lambda name: statistics.median(cpu[name]))
    print(f"  best reference: {best}")
    ratios = [ours / theirs for ours, theirs in zip(cpu["mirror"], cpu[best])]
    ratio = statistics.median(ratios)
    return [Row(NAME, statistics.median(cpu["mirror"]), statistics.median(cpu[best]), ratio,
                min(ratios), max(ratios), f">= {GOAL}", ratio >= GOAL, "GB per CPU second")]
