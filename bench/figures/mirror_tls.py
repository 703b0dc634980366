"""CPU of a fetcher that mirrors over TLS 1.3, against what it must cost: the plain path and the decryption.

Three take turns in each round: the fetcher over TLS, the same fetcher in plain text, and openssl's own loop that
decrypts records of 16 KiB in its cache (AES-256-GCM, which the connection agrees on: both sides have OpenSSL's
preferences). ratio = (plain + decryption) / TLS, each in CPU seconds a GiB; 1 would be a TLS that costs nothing
but its arithmetic. The fetcher's thread alone is counted; the sender and the process that speaks TLS for it run
on the other processor.
"""
import os
import shutil
import statistics
import subprocess

from .figure import Row, in_turns, show
from .kafka import Unavailable

NAME = "mirror-tls"
WHAT = "CPU seconds a GiB of a fetcher over TLS 1.3 against plain text and openssl's own decryption"
GOAL = 0.7
CIPHER = "aes-256-gcm"
RECORD = 16384
BATCH = 16384


def fetch(bench, mib, *options):
    command = [os.path.join(bench.binaries, "mirror_fetch"), str(BATCH), str(mib), bench.data, *options]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    size, cpu, _ = out.split()
    return float(cpu) / int(size) * 2**30


def decryption(seconds):
    """openssl counts the user time of its loop."""
    command = ["taskset", "-c", "1", "openssl", "speed", "-mr", "-seconds", str(seconds), "-bytes", str(RECORD),
               "-aead", "-decrypt", "-evp", CIPHER]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    rates = [line.rsplit(":", 1)[1] for line in out.splitlines() if line.startswith("+F:")]
    if len(rates) != 1:
        raise Unavailable(f"openssl speed said: {out.strip()[-200:]}")
    return 2**30 / float(rates[0])


def measure(bench):
    for tool in ("openssl", "taskset"):
        if shutil.which(tool) is None:
            raise Unavailable(f"no {tool}")
    mib = 300 if bench.quick else 1000
    ways = {"TLS 1.3": lambda: fetch(bench, mib, "--tls"), "plain text": lambda: fetch(bench, mib),
            f"openssl speed {CIPHER}": lambda: decryption(1 if bench.quick else 2)}
    costs = in_turns(bench, ways)
    for name in ways:
        show(name, costs[name], "CPU s/GiB")
    tls, plain, speed = costs.values()
    least = [a + b for a, b in zip(plain, speed)]
    ratios = [b / t for b, t in zip(least, tls)]
    ratio = statistics.median(ratios)
    return [Row(NAME, statistics.median(tls), statistics.median(least), ratio, min(ratios), max(ratios),
                f">= {GOAL}", ratio >= GOAL, "CPU s/GiB")]
