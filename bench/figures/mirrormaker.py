"""MirrorMaker 2 that a figure starts, measures and stops (scripts/kafka mirrormaker).

It is MirrorMaker 2's source connector in a Connect worker of its own, which is one of the ways it is run, and
the cheapest: its other two connectors, heartbeats and checkpoints, are left out. A worker can pause a connector,
so that a figure fills the source meanwhile and measures a process whose compilers are warm. Defaults hold but
for what one broker a cluster needs: docs/decisions/0013.
"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import time

from .cluster import free_port
from .kafka import SCRIPT, Unavailable
from .process import cpu_seconds, die_with_parent, peak_memory

JVM = "-Xms256m -Xmx2g -XX:+UseG1GC -XX:MaxGCPauseMillis=20"
NAME = "mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = {
    "key.converter": BYTES,
    "value.converter": BYTES,
    "header.converter": BYTES,
    "plugin.discovery": "service_load",
}
CONNECTOR = {
    "name": NAME,
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "source.cluster.alias": "source",
    "target.cluster.alias": "target",
    "tasks.max": "1",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "sync.topic.acls.enabled": "false",
}


class MirrorMaker:
    """Copies `topics`, which exist, from one cluster to another, under the same names; gone with stop().

    `source` and `target` are bootstrap servers. Its files are in `folder`.
    """

    def __init__(self, folder, source, target, topics, jvm=JVM):
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            raise Unavailable("no Java")
        fetched = subprocess.run([SCRIPT, "mirrormaker"], capture_output=True, text=True, timeout=600)
        if fetched.returncode != 0:
            raise Unavailable(f"no MirrorMaker 2: {(fetched.stderr or fetched.stdout).strip()[-500:]}")
        os.makedirs(folder, exist_ok=True)
        self.port = free_port()
        worker = properties(os.path.join(folder, "worker.properties"), {
            **WORKER,
            "bootstrap.servers": target,
            "listeners": f"HTTP://127.0.0.1:{self.port}",
            "offset.storage.file.filename": os.path.join(folder, "offsets"),
        })
        connector = properties(os.path.join(folder, "connector.properties"), {
            **CONNECTOR,
            "source.cluster.bootstrap.servers": source,
            "target.cluster.bootstrap.servers": target,
            "topics": ",".join(topics),
        })
        self.log_path = os.path.join(folder, "log")
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen([SCRIPT, "mirrormaker", worker, connector], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent,
                                            env={**os.environ, "KMIRROR_KAFKA_JVM": jvm})
        try:
            self.await_state("RUNNING", seconds=120)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self):
        return self.process.pid  # the script has become the JVM

    def cpu_seconds(self):
        return cpu_seconds(self.pid)

    def peak_memory(self):
        return peak_memory(self.pid)

    def pause(self):
        """Returns when no task copies any more."""
        self.ask("PUT", f"/connectors/{NAME}/pause")
        self.await_state("PAUSED")

    def resume(self):
        """Copying goes on soon after this."""
        self.ask("PUT", f"/connectors/{NAME}/resume")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def await_state(self, wanted, seconds=60):
        """Until the connector and every task say so, and there is a task."""
        patience = time.monotonic() + seconds
        states = []
        while states != [wanted] * max(2, len(states)):
            if self.process.poll() is not None:
                raise RuntimeError(f"MirrorMaker 2 ended with {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > patience:
                raise RuntimeError(f"MirrorMaker 2 is {states} after {seconds} s: {self.last_words()}")
            time.sleep(0.05)
            status = self.status()
            states = [part["state"] for part in status]
            for part in status:
                if part["state"] == "FAILED":
                    raise RuntimeError(f"MirrorMaker 2 failed: {part.get('trace', '')[:2000]}")

    def status(self):
        """The connector's state, then its tasks'; empty while the worker does not answer yet."""
        try:
            answer = json.loads(self.ask("GET", f"/connectors/{NAME}/status"))
        except (OSError, http.client.HTTPException):
            return []
        return [answer["connector"], *answer["tasks"]]

    def ask(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status >= 300:
                raise http.client.HTTPException(f"{method} {path}: {answer.status} {body[:500]!r}")
            return body
        finally:
            connection.close()

    def last_words(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]


def properties(path, values):
    with open(path, "w") as file:
        file.writelines(f"{key}={value}\n" for key, value in values.items())
    return path
