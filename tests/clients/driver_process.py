"""A client library's driver: a process that carries out one call after another.

A call is a line of fields on its standard input, separated by tabs; the answer is any number of
lines "row<TAB>FIELD..." and a last one: "ok", "error<TAB>CODE<TAB>TEXT" with the code of Kafka's
protocol that the library gave (or the name of an error of the library's own), or "unsupported" when
the library has no such call. README.md lists the calls.
"""
import base64
import os
import selectors
import subprocess
import tempfile
import time
from typing import NamedTuple, Optional

NULL = "~"
# Beyond the patience of the drivers themselves (60 s): what remains is a driver that hangs.
CALL_SECONDS = 90 * float(os.environ.get("KMIRROR_TEST_TIME_FACTOR") or 1)


class DriverError(Exception):
    """The library reported an error; `code` is a number when it came from the broker."""

    def __init__(self, code, text):
        super().__init__(f"error {code}: {text}")
        self.code = int(code) if code.lstrip("-").isdigit() else code
        self.text = text


class Unsupported(Exception):
    pass


class DriverDied(Exception):
    pass


class Record(NamedTuple):
    """Null (None) and empty differ, as they do in Kafka."""
    key: Optional[bytes]
    value: Optional[bytes]
    headers: tuple = ()  # of (name, value or None)
    timestamp: Optional[int] = None


class Read(NamedTuple):
    offset: int
    timestamp_type: int  # 0 creation, 1 append
    record: Record


def encode_bytes(data):
    return NULL if data is None else base64.b64encode(data).decode()


def decode_bytes(text):
    return None if text == NULL else base64.b64decode(text, validate=True)


def encode_record(record):
    headers = ",".join(f"{encode_bytes(name.encode())}:{encode_bytes(value)}"
                       for name, value in record.headers)
    timestamp = NULL if record.timestamp is None else str(record.timestamp)
    return ";".join([timestamp, encode_bytes(record.key), encode_bytes(record.value), headers])


def decode_record(text):
    timestamp, key, value, headers = text.split(";")
    pairs = [header.split(":") for header in headers.split(",")] if headers else []
    return Record(decode_bytes(key), decode_bytes(value),
                  tuple((decode_bytes(name).decode(), decode_bytes(data)) for name, data in pairs),
                  None if timestamp == NULL else int(timestamp))


class Driver:
    def __init__(self, command, environment=None):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=environment)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()  # its sign to end
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.selector.close()
        self.errors.close()

    def messages(self):
        """The end of what the driver wrote to standard error."""
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 6000))
        return self.errors.read().decode(errors="replace")

    def call(self, *fields):
        """The rows of the answer, as lists of fields."""
        line = "\t".join(str(field) for field in fields) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise DriverDied(f"the driver ended with {self.process.wait()}") from None
        rows = []
        end = time.monotonic() + CALL_SECONDS
        while True:
            kind, *rest = self.read_line(end, fields[0]).split("\t")
            if kind == "row":
                rows.append(rest)
            elif kind == "ok":
                return rows
            elif kind == "error":
                raise DriverError(rest[0], rest[1])
            elif kind == "unsupported":
                raise Unsupported(fields[0])
            else:
                raise DriverDied(f"the driver answered {kind!r} to {fields[0]}")

    def read_line(self, end, verb):
        while b"\n" not in self.unread:
            if not self.selector.select(max(0, end - time.monotonic())):
                raise DriverDied(f"no answer to {verb} in {CALL_SECONDS:.0f} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise DriverDied(f"the driver ended with {self.process.wait()} in {verb}")
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode()
