#!/usr/bin/env python3
"""Checks that the documentation says what the sources say.

    docs_check.py ROOT

Every metric is in docs/operations.md, every config in docs/configs.md, every served API in
docs/protocol.md, every transition of a mirror partition in docs/architecture.md and no other, and
every relative link leads to a file.
"""
import os
import re
import sys

problems = []


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def sources(root, *folders):
    for folder in folders:
        for where, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith((".cc", ".h")):
                    yield os.path.relpath(os.path.join(where, name), root)


def check_metrics(root):
    text = read(root, "docs/operations.md")
    known = set()
    for path in sources(root, "src", "broker"):
        known |= set(re.findall(r'"((?:kmirror|process)_[a-z_]+)"', read(root, path)))
    if len(known) < 20:
        problems.append("metrics: the sources were not understood")
    documented = set(re.findall(r"^\| `((?:kmirror|process)_[a-z_]+)` \|", text, re.M))
    for name in sorted(known - documented):
        problems.append(f"docs/operations.md: metric {name} is missing")
    for name in sorted(documented - known):
        problems.append(f"docs/operations.md: there is no metric {name}")


def check_configs(root):
    text = read(root, "docs/configs.md")
    tables = {"src/sync/mirror_config_table.cc": r'^\s*\{"([a-z.]+)", [A-Z],',
              "broker/config/config_table.cc": r'^\s*(?:\{|Static\(|Dynamic\()"([a-z.]+)", [A-Z],'}
    for path, pattern in tables.items():
        names = re.findall(pattern, read(root, path), re.M)
        if len(names) < 20:
            problems.append(f"{path}: the table was not understood")
        for name in names:
            if f"`{name}`" not in text:
                problems.append(f"docs/configs.md: config {name} is missing")


def check_transitions(root):
    rules = re.findall(r"\{S::k(\w+), E::k(\w+), S::k(\w+), A::k\w+\}",
                       read(root, "src/statemachine/partition_rules.cc"))
    if len(rules) < 20:
        problems.append("partition_rules.cc: the table was not understood")

    def upper(name):
        return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).upper()

    wanted = {tuple(upper(part) for part in rule) for rule in rules}
    told = set(re.findall(r"^\| ([A-Z_]+) \| ([A-Z_]+) \| ([A-Z_]+) \|",
                          read(root, "docs/architecture.md"), re.M))
    for rule in sorted(wanted - told):
        problems.append("docs/architecture.md: transition missing: " + " | ".join(rule))
    for rule in sorted(told - wanted):
        problems.append("docs/architecture.md: no such transition: " + " | ".join(rule))


def check_apis(root):
    apis = re.findall(r"\{(\d+), \d+, (\d+), (\d+), Handle", read(root, "broker/server/api_table.cc"))
    if len(apis) < 15:
        problems.append("api_table.cc: the table was not understood")
    text = read(root, "docs/protocol.md")
    for key, low, high in apis:
        versions = low if low == high else f"{low} to {high}"
        if not re.search(rf"^\| {key} \| \w+ \| {versions} \|$", text, re.M):
            problems.append(f"docs/protocol.md: key {key} is served in versions {versions}")


def check_links(root):
    pages = ["README.md"] + [os.path.relpath(os.path.join(where, name), root)
                             for where, _, names in os.walk(os.path.join(root, "docs"))
                             for name in names if name.endswith(".md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read(root, page)):
            if re.match(r"[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(page), target)):
                problems.append(f"{page}: the link {target} leads nowhere")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    for check in (check_metrics, check_configs, check_transitions, check_apis,
                  check_links):
        check(sys.argv[1])
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
