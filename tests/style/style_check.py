#!/usr/bin/env python3
"""Checks the rules of the source tree that no compiler knows.

    style_check.py ROOT

Prints one line for each violation, `file:line: rule: what to do instead`, and exits 1 if there is
one. Looks at the files git tracks or would track; without git, at all but build/ and hidden folders.
"""
import os
import re
import subprocess
import sys
from typing import NamedTuple

# What a folder may include besides itself, include/ (as "kmirror/...") and its own README's word:
# docs/architecture.md, "May-include order". A name ending in .h allows that one header.
MAY_INCLUDE = {
    "src/base": [],
    "src/statemachine": ["src/base"],
    "src/log": ["src/base"],
    "src/quota": ["src/base"],
    "src/protocol": ["src/base"],
    "src/net": ["src/base", "src/protocol", "src/fetcher/transport.h"],
    "src/fetcher": ["src/base", "src/quota", "src/protocol", "src/log"],
    "src/sync": ["src/base", "src/protocol", "src/log", "src/fetcher/transport.h",
                 "src/fetcher/mirror_fetching.h", "src/fetcher/source_cluster.h",
                 "src/statemachine/retry_backoff.h"],
    "src/coordinator": ["src/base", "src/sync", "src/fetcher", "src/log", "src/statemachine",
                        "src/protocol", "src/quota"],
    "src": ["src"],  # the facade puts all parts together
    "broker/mirror_host": ["broker", "src/net/epoll_runtime.h"],
    "broker": ["broker", "src/base", "src/protocol", "src/net", "src/log",
               "src/fetcher/abstract_fetcher_thread.h"],
    "conformance": [],  # hosts compile it against the installed library
    "examples": [],
    "tools": ["src/base", "src/protocol", "src/net"],
}
# Pure folders, and the libraries they must not know.
PURE = ["src/base", "src/statemachine", "src/log", "src/quota", "src/protocol"]
EXTERNAL = re.compile(r"^(boost|spdlog|fmt|librdkafka|rdkafka|absl|prometheus|nlohmann|CLI)\b")
PURE_BANNED = re.compile(r"^(boost/asio|spdlog|librdkafka|rdkafka)\b")

# (rule, folders, excepted files, pattern, advice): text that must not occur outside comments.
BANNED = [
    ("sleep-in-test", ["tests", "conformance"], ["tests/support/wait_until.cc"],
     r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.])sleep\(",
     "wait for the condition itself with WaitUntil (tests/support/wait_until.h) or a fake clock"),
    ("real-clock", ["src", "include", "conformance"], ["src/net/"],
     r"\b(system_clock|steady_clock|high_resolution_clock)::now\b|\bclock_gettime\b|\bgettimeofday\b"
     r"|\btime\((nullptr|NULL|0)\)",
     "take the time as an argument, or ask the host's Runtime clock; only src/net has a real one"),
    ("environment-read", ["src", "include"], [], r"\bgetenv\b",
     "take the value as an option: the library lives in another program's process"),
    ("global-logger", ["src", "include", "conformance"], [],
     r"\bspdlog::(default_logger\w*|get|info|warn|error|debug|trace|critical)\(",
     "log through the logger or sink that was handed in"),
    ("coroutine", ["src", "include"], [], r"\bco_(await|return|yield)\b",
     "use callbacks here: the library must build with g++ 12, which miscompiles coroutines"),
    ("skipped-test", ["tests", "conformance"], [], r"\bGTEST_SKIP\(\)\s*;|\bDISABLED_\w",
     "make what the test needs part of its fixture, or say why it cannot be; CI fails at any skip"),
    ("rdkafka", ["src", "include", "broker"], [], r"\brd_kafka_\w|\bRdKafka::",
     "librdkafka is for tests, tools and benchmarks; use src/protocol"),
]
BANNED = [(rule, folders, allowed, re.compile(pattern), advice)
          for rule, folders, allowed, pattern, advice in BANNED]

VAGUE_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc|stuff)(_|\.|$)")
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(work|root|home)/")
REGISTRY = re.compile(r"(artifactory|nexus|jfrog)[\w.-]*[/:.]|\b(PIP_INDEX_URL|GOPROXY)\s*=|"
                      r"\bindex-url\b|\bnpm_config_registry\b|^registry\s*=", re.I | re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
COLUMNS = 100
README_LINES = 12
THIS = "tests/style/"


class Violation(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def list_files(root):
    if os.path.exists(os.path.join(root, ".git")):
        git = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                             capture_output=True)
        if git.returncode == 0:  # it refuses, for one, a checkout that belongs to somebody else
            names = git.stdout.decode().split("\0")
            return sorted(n for n in names if n and os.path.isfile(os.path.join(root, n)))
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s != "build" and not s.startswith(".")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def within(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def area_of(path):
    """The most specific key of MAY_INCLUDE that holds `path`; None outside of them."""
    matches = [area for area in MAY_INCLUDE if within(path, area)]
    return max(matches, key=len) if matches else None


def without_comment(line):
    return re.sub(r"//.*$", "", line)


def check_includes(path, lines):
    area = area_of(path)
    public = within(path, "include")
    if area is None and not public:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, name = match.group(1) == '"', match.group(2)
        if public:
            if quoted and not name.startswith("kmirror/"):
                yield Violation(path, number, "public-include",
                                f'"{name}": public headers include "kmirror/..." and the standard '
                                "library only; move what is needed into include/kmirror")
            elif not quoted and not re.fullmatch(r"[a-z_]+", name):
                yield Violation(path, number, "public-include",
                                f"<{name}>: public headers use the standard library only; hide "
                                "other libraries in src/")
            continue
        if not quoted or EXTERNAL.match(name):
            if any(within(path, pure) for pure in PURE) and PURE_BANNED.match(name):
                yield Violation(path, number, "pure-folder",
                                f"<{name}>: {area} is pure; do I/O and logging in src/net, "
                                "src/fetcher or the host and pass the result in")
            continue
        if name.startswith("kmirror/"):
            continue
        if name.startswith("messages/"):  # generated into the build folder
            name = "src/protocol/" + name
        if area == "examples" and "/" not in name:
            continue  # a project of its own, outside of this one's include paths
        if not re.match(r"(src|broker|tests|tools|bench|conformance|examples)/", name):
            yield Violation(path, number, "include-from-root",
                            f'"{name}": write the path from the root of the repository, as in '
                            '"src/protocol/reader.h"')
            continue
        own = area if area not in ("src", "broker") else os.path.dirname(path)
        allowed = MAY_INCLUDE[area] + [own]
        if not any(name == entry if entry.endswith(".h") else within(name, entry)
                   for entry in allowed):
            shown = ", ".join(["include/kmirror"] + MAY_INCLUDE[area])
            yield Violation(path, number, "include-direction",
                            f'"{name}": {area} may include {shown} only; pass the data in, or put an '
                            "interface where the user of it lives")


def check_cpp(path, text):
    lines = text.split("\n")
    yield from check_includes(path, lines)
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
        yield Violation(path, 1, "pragma-once", "begin the header with #pragma once")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield Violation(path, number, "columns",
                            f"{len(line)} columns; break the line at {COLUMNS}")
        code = without_comment(line)
        for rule, folders, allowed, pattern, advice in BANNED:
            if not any(within(path, f) for f in folders):
                continue
            if any(path == a or (a.endswith("/") and path.startswith(a)) for a in allowed):
                continue
            match = pattern.search(code)
            if match:
                yield Violation(path, number, rule, f"{match.group(0).strip()}: {advice}")
    if within(path, "tests") and re.search(r"^\s*(TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(", text, re.M) \
            and not path.endswith("_test.cc"):
        yield Violation(path, 1, "test-file-name", "a file with tests is named <subject>_test.cc")


def check_name(path):
    name = os.path.basename(path)
    if re.search(r"\.(cpp|cxx|c\+\+|hpp|hh|hxx|C|H)$", name):
        yield Violation(path, 1, "file-name", "C++ files end in .h and .cc")
    if re.search(r"\.(h|cc|py)$", name):
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.(h|cc|py)", name):
            yield Violation(path, 1, "file-name", "use lower_case_with_underscores")
        elif VAGUE_NAMES.search(name):
            yield Violation(path, 1, "file-name", "name the idea the file holds, not its vagueness")


def check_text(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if MACHINE_PATH.search(line):
            yield Violation(path, number, "machine-path",
                            "a path of one machine; use a path relative to the repository, a "
                            "temporary folder or an argument")
        if REGISTRY.search(line):
            yield Violation(path, number, "registry-host",
                            "names a package registry or proxy; leave that to the user's own set-up")


def check_readmes(root, files):
    areas = set()
    for path in files:
        parts = path.split("/")
        if parts[0] in ("src", "broker") and len(parts) == 3 and \
                re.search(r"\.(h|cc)$|^CMakeLists\.txt$", parts[2]):
            areas.add("/".join(parts[:2]))
    for area in sorted(areas):
        readme = area + "/README.md"
        if readme not in files:
            yield Violation(readme, 1, "area-readme",
                            f"missing; say in {README_LINES} lines or fewer what {area} owns, what "
                            "it does not, what it may depend on, its lane rule, where to start")
            continue
        with open(os.path.join(root, readme), encoding="utf-8") as file:
            count = len(file.read().rstrip("\n").split("\n"))
        if count > README_LINES:
            yield Violation(readme, count, "area-readme",
                            f"{count} lines; keep {README_LINES} and move the rest to docs/")


def check_tree(root):
    files = list_files(root)
    violations = list(check_readmes(root, files))
    for path in files:
        violations += check_name(path)
        if path.startswith(THIS):
            continue  # holds the forbidden words themselves
        with open(os.path.join(root, path), "rb") as file:
            data = file.read()
        if b"\0" in data:
            continue
        text = data.decode("utf-8", errors="replace")
        violations += check_text(path, text)
        if path.endswith((".h", ".cc")):
            violations += check_cpp(path, text)
    return files, violations


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    files, violations = check_tree(sys.argv[1])
    for violation in violations:
        print(violation)
    print(f"{len(files)} files looked at, {len(violations)} violations")
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
