#!/usr/bin/env python3
"""Generates the Kafka messages of kmirror from the schemas beside this file.

    generate.py list {codec|json}             prints the files that `codec` or `json` writes
    generate.py {codec|json} OUTPUT_DIRECTORY writes them

`codec` writes structs and their codec, for the library; `json` the text form that the golden tests
compare. Files whose content would not change are left alone, so that nothing is built for nothing.
"""

import pathlib
import sys

from generator import cpp, json_text, schema

HERE = pathlib.Path(__file__).resolve().parent


def read_apis():
    constants = schema.read_constants((HERE / "mirror_numbers.h").read_text())
    apis = []
    for path in sorted((HERE / "schema").glob("*.kmsg")):
        try:
            api = schema.parse(path.read_text(), constants)
        except schema.SchemaError as error:
            sys.exit(f"{path}: {error}")
        if api.file_name != path.stem:
            sys.exit(f"{path}: holds {api.name}, which belongs into {api.file_name}.kmsg")
        apis.append(api)
    return sorted(apis, key=lambda api: constants.get(api.key) or int(api.key))


def outputs(kind, apis):
    """File name -> function that gives its text."""
    if kind == "codec":
        files = {"messages/registry.cc": lambda: cpp.registry(apis)}
        for api in apis:
            files[f"messages/{api.file_name}.h"] = lambda api=api: cpp.header(api)
            files[f"messages/{api.file_name}.cc"] = lambda api=api: cpp.source(api)
        return files
    files = {"messages_json/all.cc": lambda: json_text.registry(apis)}
    for api in apis:
        files[f"messages_json/{api.file_name}.cc"] = lambda api=api: json_text.source(api)
    return files


def main(arguments):
    if len(arguments) != 2 or not {"codec", "json"} & set(arguments):
        sys.exit(__doc__)
    if arguments[0] == "list":
        print("\n".join(outputs(arguments[1], read_apis())))
        return
    for name, text in outputs(arguments[0], read_apis()).items():
        path = pathlib.Path(arguments[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text()
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


if __name__ == "__main__":
    main(sys.argv[1:])
