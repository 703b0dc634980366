"""Bytes mirrored per CPU second of a fetcher, by size of batches, against the reference loop; and from the
same runs what one more batch costs.

The reference is the best of {write per receive, 1 MiB filled} x {256 KiB, 1 MiB} (bench/reference, frozen); it
does not look at batches. 1000 MiB a run: below what makes the kernel write back. The first round warms up and
is not counted.
"""
import os
import statistics
import subprocess

from .figure import Row, in_turns, show

NAME = "mirror-by-batch"
WHAT = "bytes per CPU second of the fetcher's thread against the reference loop, by size of batches"
REFERENCES = [("receive", 256), ("receive", 1024), ("fill", 256), ("fill", 1024)]
# Real batches never end on page borders, and neither does the reference: writes at round offsets get large
# pieces of page cache, which cost half or four times as much, by where in the machine's memory they are.
ODD = 17
SIZES = {name: size - ODD for name, size in {
    "1k": 1 << 10, "2k": 2 << 10, "4k": 4 << 10, "16k": 16 << 10, "64k": 64 << 10, "256k": 256 << 10,
    "1m": 1 << 20}.items()}
GOALS = {"16k": 0.85, "64k": 0.9, "1m": 0.9}
BATCH_GOAL_NS = 100


def run(command):
    """(bytes, CPU seconds) of a program that prints them first."""
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    size, cpu, _ = out.split()
    return int(size), float(cpu)


def rounds_of(commands, bench):
    """{name: [(bytes, CPU seconds) a round]} of programs that take turns."""
    return in_turns(bench, {name: lambda command=command: run(command) for name, command in commands.items()})


def rates(measured):
    return [size / cpu / 1e9 for size, cpu in measured]


def row(name, ours, reference, goal):
    """One of rates in GB per CPU second, by pairs of a round."""
    ratios = [mine / theirs for mine, theirs in zip(ours, reference)]
    ratio = statistics.median(ratios)
    return Row(name, statistics.median(ours), statistics.median(reference), ratio, min(ratios), max(ratios),
               "" if goal is None else f">= {goal}", None if goal is None else ratio >= goal,
               "GB per CPU second")


def measure(bench):
    mib = 300 if bench.quick else 1000
    commands = {f"reference {mode} {kib} KiB":
                [os.path.join(bench.binaries, "reference_loop"), mode, str(kib), str(mib), bench.data]
                for mode, kib in REFERENCES}
    references = list(commands)
    for name, size in SIZES.items():
        commands[name] = [os.path.join(bench.binaries, "mirror_fetch"), str(size), str(mib), bench.data]
    found = rounds_of(commands, bench)
    for name in commands:
        show(name, rates(found[name]), "GB per CPU second")
    best = max(references, key=lambda name: statistics.median(rates(found[name])))
    print(f"  best reference: {best}")
    rows = [row(f"mirror-{name}", rates(found[name]), rates(found[best]), GOALS.get(name)) for name in SIZES]

    # The same bytes in twice as many batches: the difference is theirs alone.
    more = (mib << 20) // SIZES["1k"] - (mib << 20) // SIZES["2k"]
    costs = [(small - large) / more * 1e9 for (_, small), (_, large) in zip(found["1k"], found["2k"])]
    whole = statistics.median(small / (size / SIZES["1k"]) * 1e9 for size, small in found["1k"])
    cost = statistics.median(costs)
    rows.append(Row("one-more-batch", cost, whole, cost / whole, min(costs) / whole, max(costs) / whole,
                    f"<= {BATCH_GOAL_NS} ns", cost <= BATCH_GOAL_NS,
                    f"ns, of all a batch of 1 KiB costs [{min(costs):.0f} .. {max(costs):.0f}]"))
    return rows
