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
import time

from .process import cpu_seconds, die_with_parent, peak_memory

# The topic, or its leader, is not there (yet): UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE,
# NOT_LEADER_OR_FOLLOWER.
NOT_SERVED = (3, 5, 6)

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
    return varnat((value << 1) ^ (value >> 63))


def varnat(value):
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch_of(size, timestamp):
    """One uncompressed v2 batch of one record, about `size` bytes."""
    return batch_of_records(1, size - 90, timestamp)


def batch_of_records(count, value_size, timestamp):
    """One uncompressed v2 batch of `count` records, without keys, each with a value of `value_size` zeroes."""
    value = varint(value_size) + bytes(value_size)
    records = bytearray()
    for offset in range(count):
        body = bytes(1) + varint(0) + varint(offset) + varint(-1) + value + varint(0)
        records += varint(len(body)) + body
    rest = struct.pack(">hiqqqhii", 0, count - 1, timestamp, timestamp, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest


class Broker:
    """A kmirrord of our own in `folder`; gone with the object's stop(). `options`: lines of its config.
    `host`: where it listens."""

    def __init__(self, binaries, folder, options=(), host="127.0.0.1"):
        self.binaries = binaries
        self.folder = folder
        self.data = os.path.join(folder, "data")
        os.makedirs(folder, exist_ok=True)
        self.log = open(os.path.join(folder, "log"), "w")
        config = os.path.join(folder, "kmirrord.properties")
        with open(config, "w") as file:
            file.write(f"node.id=1\nlisteners=PLAINTEXT://{host}:{free_port(host)}\nlog.dirs={self.data}\n"
                       "log.retention.ms=-1\nmessage.max.bytes=67108864\n" +
                       "".join(line + "\n" for line in options))
        self.process = subprocess.Popen([os.path.join(binaries, "kmirrord"), "--config", config],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        preexec_fn=die_with_parent)
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


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


class Cursor:
    """Reads the fields of an answer, one after another."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, size):
        self.at += size

    def number(self, size):
        return int.from_bytes(self.take(size), "big", signed=True)

    def varnat(self):
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def tags(self):
        for _ in range(self.varnat()):
            self.varnat()
            self.skip(self.varnat())


class Client:
    """One connection."""

    def __init__(self, broker):
        self.socket = socket.create_connection((broker.host, broker.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def frame(self, key, version, body, flexible=False):
        head = struct.pack(">hhi", key, version, 1) + string("bench") + bytes(flexible)
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

    def create_topic(self, name, partitions=1, node=None):
        """CreateTopics 2, with segments of 1 GiB. `node`: where the only partition shall be."""
        if node is None:
            where = struct.pack(">ihi", partitions, 1, 0)
        else:
            where = struct.pack(">ihiiii", -1, -1, 1, 0, 1, node)
        body = struct.pack(">i", 1) + string(name) + where + struct.pack(">i", 0)
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

    def end_offset(self, topic, partition=0):
        """ListOffsets 1: the offset that consumers read up to, -1 while nobody serves the partition."""
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, -1)
        self.socket.sendall(self.frame(2, 1, body))
        error, _, offset = struct.unpack_from(">hqq", self.receive(), 4 + 2 + len(topic) + 4 + 4)
        if error in NOT_SERVED:
            return -1
        if error != 0:
            raise RuntimeError(f"end of {topic}: error {error}")
        return offset

    def await_end(self, topic, offset, seconds, pause=0.02):
        """Returns the end offset once it is at least `offset`."""
        patience = time.monotonic() + seconds
        while (end := self.end_offset(topic)) < offset:
            if time.monotonic() > patience:
                raise RuntimeError(f"{topic} is at {end} after {seconds} s, not at {offset}")
            time.sleep(pause)
        return end

    def reassign(self, topic, nodes, partition=0):
        """AlterPartitionReassignments 0: these nodes shall have the partition."""
        replicas = struct.pack(f">B{len(nodes)}i", len(nodes) + 1, *nodes)
        partitions = b"\x02" + struct.pack(">i", partition) + replicas + b"\0"
        topics = b"\x02" + bytes([len(topic) + 1]) + topic.encode() + partitions + b"\0"
        self.socket.sendall(self.frame(45, 0, struct.pack(">i", 30000) + topics + b"\0", flexible=True))
        answer = self.receive()[1 + 4:]  # after the header's tagged fields and the throttle time
        error, message = struct.unpack_from(">hB", answer)
        if error == 0 and message <= 1:
            error, = struct.unpack_from(">h", answer, 2 + 1 + 1 + 1 + len(topic) + 1 + 4)
        if error != 0:
            raise RuntimeError(f"reassign {topic}: error {error}")

    def replicas(self, topic):
        """Metadata 1: the nodes that have a topic's only partition, and those of them that are in sync."""
        self.socket.sendall(self.frame(3, 1, struct.pack(">i", 1) + string(topic)))
        at = Cursor(self.receive())
        for _ in range(at.number(4)):  # brokers
            at.skip(4)
            at.skip(at.number(2))
            at.skip(4)
            at.skip(max(at.number(2), 0))
        at.skip(4)
        if at.number(4) != 1 or at.number(2) != 0 or at.take(at.number(2)) != topic.encode():
            raise RuntimeError(f"no metadata of {topic}")
        at.skip(1)
        if at.number(4) != 1:
            raise RuntimeError(f"{topic} has more than one partition")
        at.skip(2 + 4 + 4)
        return [[at.number(4) for _ in range(at.number(4))] for _ in range(2)]

    def metadata(self, name):
        """Metadata 12 of one topic: (error, topic id in hexadecimal, [leader of each partition])."""
        body = struct.pack(">b", 2) + bytes(16) + varnat(len(name) + 1) + name.encode() + bytes(4)
        self.socket.sendall(self.frame(3, 12, body, flexible=True))
        at = Cursor(self.receive(), 1 + 4)
        for _ in range(at.varnat() - 1):  # brokers
            at.skip(4)
            at.skip(at.varnat() - 1)
            at.skip(4)
            at.skip(max(at.varnat() - 1, 0))
            at.tags()
        at.skip(at.varnat() - 1)
        at.skip(4)
        if at.varnat() != 2:
            raise RuntimeError("metadata of another number of topics than asked for")
        error = at.number(2)
        at.skip(max(at.varnat() - 1, 0))
        topic_id = at.take(16).hex()
        at.skip(1)
        leaders = {}
        for _ in range(at.varnat() - 1):
            failed, index, leader = at.number(2), at.number(4), at.number(4)
            leaders[index] = leader if failed == 0 else -1
            at.skip(4)
            for _ in range(3):
                at.skip(4 * (at.varnat() - 1))
            at.tags()
        return error, topic_id, leaders

    def topic_id(self, name):
        error, topic_id, _ = self.metadata(name)
        if error != 0:
            raise RuntimeError(f"metadata of {name}: error {error}")
        return topic_id

    def wait_for_leaders(self, name, partitions, seconds=60):
        """Until each partition answers ListOffsets: metadata names leaders before they serve."""
        end = time.monotonic() + seconds
        while True:
            body = struct.pack(">ii", -1, 1) + string(name) + struct.pack(">i", partitions)
            for partition in range(partitions):
                body += struct.pack(">iq", partition, -1)
            self.socket.sendall(self.frame(2, 1, body))
            answer = self.receive()
            at = 4 + 2 + len(name) + 4
            errors = [struct.unpack_from(">h", answer, at + 22 * i + 4)[0] for i in range(partitions)]
            if not any(errors):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"{name} has no leaders after {seconds} s: errors {errors}")
            time.sleep(0.02)

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
