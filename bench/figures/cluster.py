"""kmirrord and kmirror as programs, and a producer that costs nothing: what figures of whole clusters share.

The producer speaks the protocol by itself (Produce 7, one partition, one prepared batch sent again and again:
the broker assigns the offsets, which the CRC does not cover).
"""
import os
import re
import signal
import socket
import struct
import subprocess

from .process import cpu_seconds, peak_memory

# CRC-32C, table driven: the batches are made once.
_TABLE = []
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    _TABLE.append(_crc)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch_of(size, timestamp):
    """One uncompressed v2 batch of one record, about `size` bytes."""
    body = bytes(1) + varint(0) + varint(0) + varint(-1) + varint(size - 90) + bytes(size - 90) + varint(0)
    record = varint(len(body)) + body
    rest = struct.pack(">hiqqqhii", 0, 0, timestamp, timestamp, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest


class Broker:
    """A kmirrord of our own in `folder`; gone with the object's stop(). `options`: lines of its config."""

    def __init__(self, binaries, folder, options=()):
        self.binaries = binaries
        self.data = os.path.join(folder, "data")
        os.makedirs(folder, exist_ok=True)
        self.log = open(os.path.join(folder, "log"), "w")
        config = os.path.join(folder, "kmirrord.properties")
        with open(config, "w") as file:
            file.write(f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:{free_port()}\nlog.dirs={self.data}\n"
                       "log.retention.ms=-1\nmessage.max.bytes=67108864\n" +
                       "".join(line + "\n" for line in options))
        self.process = subprocess.Popen([os.path.join(binaries, "kmirrord"), "--config", config],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        match = re.match(r"kmirrord ready (\S+):(\d+) cluster", line)
        if not match:
            raise RuntimeError(f"kmirrord did not start: {line}")
        self.host, self.port = match.group(1), int(match.group(2))
        self.address = f"{self.host}:{self.port}"

    def cli(self, *args, timeout=600):
        return subprocess.run([os.path.join(self.binaries, "kmirror"), "--bootstrap-server", self.address, *args],
                              check=True, capture_output=True, text=True, timeout=timeout).stdout

    def peak_memory(self):
        return peak_memory(self.process.pid)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def segment(self, topic, partition=0):
        """The first segment file of a partition."""
        return os.path.join(self.data, f"{topic}-{partition}", "00000000000000000000.log")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


class Client:
    """One connection; requests with header version 1."""

    def __init__(self, broker):
        self.socket = socket.create_connection((broker.host, broker.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def frame(self, key, version, body):
        head = struct.pack(">hhi", key, version, 1) + string("bench")
        return struct.pack(">i", len(head) + len(body)) + head + body

    def receive(self):
        size = struct.unpack(">i", self.exactly(4))[0]
        return self.exactly(size)[4:]

    def exactly(self, size):
        out = bytearray()
        while len(out) < size:
            more = self.socket.recv(size - len(out))
            if not more:
                raise RuntimeError("the broker closed the connection")
            out += more
        return bytes(out)

    def create_topic(self, name, partitions=1):
        """CreateTopics 2, with segments of 1 GiB."""
        body = struct.pack(">i", 1) + string(name) + struct.pack(">ihii", partitions, 1, 0, 0)
        self.socket.sendall(self.frame(19, 2, body + struct.pack(">ib", 30000, 0)))
        answer = self.receive()
        error = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))[0]
        if error != 0:
            raise RuntimeError(f"create {name}: error {error}")

    def delete_topic(self, name):
        """DeleteTopics 1."""
        self.socket.sendall(self.frame(20, 1, struct.pack(">i", 1) + string(name) + struct.pack(">i", 30000)))
        error = struct.unpack_from(">h", self.receive(), 4 + 4 + 2 + len(name))[0]
        if error != 0:
            raise RuntimeError(f"delete {name}: error {error}")

    def produce_frame(self, topic, partition, batch):
        body = struct.pack(">hhii", -1, 1, 30000, 1) + string(topic)
        body += struct.pack(">iii", 1, partition, len(batch)) + batch
        return self.frame(0, 7, body)

    def produce(self, topic, partition, batch, count=1, window=4):
        """The same batch `count` times, up to `window` requests on the way."""
        frame = self.produce_frame(topic, partition, batch)
        asked = 0
        for answered in range(count):
            while asked < count and asked - answered < window:
                self.socket.sendall(frame)
                asked += 1
            error = struct.unpack_from(">h", self.receive(), 4 + 2 + len(topic) + 4 + 4)[0]
            if error != 0:
                raise RuntimeError(f"produce to {topic}: error {error}")

    def close(self):
        self.socket.close()
