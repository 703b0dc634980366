"""A real Apache Kafka that a figure starts, measures and stops (scripts/kafka).

Its JVM is what Kafka's own scripts give a broker (G1, both compilers), with 1 GiB of heap. A fresh one is slow:
the compilers need about 20 GiB of fetches before its CPU figures hold. Where only our side is measured, `warm`
less, and say so.
"""
import os
import re
import shutil
import subprocess

from .process import cpu_seconds, peak_memory

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                      "scripts", "kafka")
JVM = "-Xms256m -Xmx1g -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -Xss512k"
# Kafka's own values, where scripts/kafka has ones that are quicker for tests and cost an idle broker more.
ORDINARY = ["num.network.threads=3", "num.io.threads=8", "log.retention.check.interval.ms=300000",
            "broker.heartbeat.interval.ms=2000", "broker.session.timeout.ms=9000"]


class Unavailable(Exception):
    """There is no Kafka here, and why: its rows are left out; `rows` need none and were measured."""

    def __init__(self, why, rows=()):
        super().__init__(why)
        self.rows = list(rows)


class Node:
    """Where one node listens and what it uses."""

    def __init__(self, cluster, number, address):
        self.number = number
        self.address = address
        self.host, port = address.split(":")
        self.port = int(port)
        self.folder = os.path.join(cluster.folder, f"node{number}")
        with open(os.path.join(self.folder, "pid")) as file:
            self.pid = int(file.read())

    def cpu_seconds(self):
        return cpu_seconds(self.pid)

    def peak_memory(self):
        return peak_memory(self.pid)

    def segment(self, topic, partition=0):
        return os.path.join(self.folder, "data", f"{topic}-{partition}", "00000000000000000000.log")


class Kafka:
    """`nodes` combined nodes in `folder`; gone with stop(). `options`: lines of server.properties."""

    def __init__(self, folder, nodes=1, options=(), jvm=JVM):
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            raise Unavailable("no Java")
        self.folder = folder
        command = [SCRIPT, "start", folder, "--fresh", "--owner", str(os.getpid()), "-n", str(nodes)]
        for option in options:
            command += ["-o", option]
        done = subprocess.run(command, env={**os.environ, "KMIRROR_KAFKA_JVM": jvm}, text=True,
                              capture_output=True, timeout=600)
        if done.returncode != 0:
            raise Unavailable(f"Kafka did not start: {(done.stderr or done.stdout).strip()[-500:]}")
        self.bootstrap = re.search(r"\S+:\d+\S*", done.stdout.strip().splitlines()[-1]).group(0)
        self.nodes = [Node(self, i + 1, address) for i, address in enumerate(self.bootstrap.split(","))]

    @property
    def node(self):
        """The only one."""
        (node,) = self.nodes
        return node

    def stop(self):
        subprocess.run([SCRIPT, "stop", self.folder], capture_output=True, timeout=300)
