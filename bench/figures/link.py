"""Two network namespaces with a long link between them (bench/link_delay.cc). Needs root and /dev/net/tun."""
import contextlib
import ctypes
import os
import subprocess

from .kafka import Unavailable

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(namespace):
    """Sockets made, and processes started, in here belong to the network namespace of that path."""
    with open("/proc/self/ns/net") as own, open(namespace) as other:
        if _LIBC.setns(other.fileno(), _CLONE_NEWNET) != 0:
            raise Unavailable(f"setns: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            if _LIBC.setns(own.fileno(), _CLONE_NEWNET) != 0:
                raise RuntimeError("cannot leave the network namespace")


class End:
    """One side: where it is, and its address on the link."""

    def __init__(self, namespace, address):
        self.namespace = namespace
        self.address = address


class Link:
    """Up to `rate_mbit` each way; gone with stop()."""

    def __init__(self, binaries, rate_mbit):
        self.process = subprocess.Popen([os.path.join(binaries, "link_delay"), "--rate-mbit", str(rate_mbit)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        words = self.process.stdout.readline().split()
        if words[:2] != ["link", "ready"]:
            raise Unavailable(f"no link between network namespaces: {self.process.stderr.read().strip()}")
        self.left, self.right = End(words[2], words[3]), End(words[4], words[5])
        # "tcp_rmem A B MAX", "tcp_wmem A B MAX": the maxima of this machine, which the link has raised.
        self.maxima = [int(self.process.stdout.readline().split()[3]) for _ in range(2)]

    def set_delay(self, seconds):
        """One way."""
        order = f"delay_us {round(seconds * 1e6)}\n"
        self.process.stdin.write(order)
        self.process.stdin.flush()
        if self.process.stdout.readline() != order:
            raise RuntimeError("the link does not follow")

    def stop(self):
        """Answers how many packets each direction has dropped."""
        self.process.stdin.close()
        dropped = self.process.stdout.readline().split()
        self.process.wait()
        return [int(number) for number in dropped[1:]]
