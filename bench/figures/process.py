"""What a running process has used, and how none is left behind."""
import ctypes
import os
import re
import signal

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time so far; its resolution is 10 ms."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_memory(pid):
    """Peak resident bytes so far."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read()).group(1)) * 1024


def resident_memory(pid):
    """Resident bytes now."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s*(\d+) kB", status.read()).group(1)) * 1024


def die_with_parent():
    """For preexec_fn: a bench that is killed leaves no servers behind."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
