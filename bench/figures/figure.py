"""What the figures of bench/run share. A figure is a module: `NAME`, `WHAT`, `measure(Bench) -> [Row]`."""
import mmap
import os
import random
import shutil
import statistics
import time
from typing import NamedTuple, Optional


class Bench(NamedTuple):
    """What every figure is given."""
    binaries: str  # the folder of the programs
    data: str      # an empty folder on the disk that is measured
    rounds: int    # pairs that count
    quick: bool    # less data: figures are rough


class Row(NamedTuple):
    """One line of the table. Ratios are ours against the reference in the same round."""
    figure: str
    ours: float
    reference: Optional[float]
    ratio: Optional[float]
    low: Optional[float]
    high: Optional[float]
    goal: str
    met: Optional[bool]
    unit: str


def touch_memory(size=3 << 30):
    """Free memory that the host has taken back costs the first who writes to it several times as much:
    every run begins with pages that were just used."""
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_POPULATE_WRITE if hasattr(mmap, "MADV_POPULATE_WRITE") else 23)


def empty(folder):
    """Nobody pays for writing back, or deleting, the files of the run before."""
    for left in os.listdir(folder):
        path = os.path.join(folder, left)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    os.sync()


def await_gone(folder, prefix, seconds=60):
    """Until no entry of `folder` begins with `prefix`: who deletes in the background is done with it."""
    patience = time.monotonic() + seconds
    while left := [name for name in os.listdir(folder) if name.startswith(prefix)]:
        if time.monotonic() > patience:
            raise RuntimeError(f"{folder} still has {left}")
        time.sleep(0.05)


def log_bytes(folder):
    """The size of a partition's segments."""
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".log"))


def forget(folder):
    """Takes a partition's segments out of the page cache. Left there, making room would be paid by whoever
    writes next."""
    os.sync()
    for name in os.listdir(folder):
        if name.endswith(".log"):
            file = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def show(name, values, unit):
    print(f"  {name:<34} {statistics.median(values):8.3f} "
          f"[{min(values):.3f} .. {max(values):.3f}] {unit}", flush=True)


def in_turns(bench, ways):
    """{name: [what the call answered, a round]}; in each round every way once, in changing order, each on an
    empty folder and touched memory. The first round warms up and is not kept."""
    found = {name: [] for name in ways}
    order = list(ways)
    for number in range(bench.rounds + 1):
        random.Random(number).shuffle(order)  # nobody always follows the same neighbour
        for name in order:
            empty(bench.data)
            touch_memory()
            measured = ways[name]()
            if number > 0:
                found[name].append(measured)
    return found
