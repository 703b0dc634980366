"""Reads the message schemas (*.kmsg).

A file describes one API:

    # Any comment; the ones before `api` become the comment of the generated structs.
    api NAME KEY, versions 4-18, flexible 12+        (flexible none: no version is)

    request
      FIELD TYPE[, ATTRIBUTE]...
        FIELD OF A STRUCT, indented by two more
    response
      ...

TYPE is bool, int8, int16, int32, int64, uuid, string, bytes, records, a StructName, or [] and one
of these. KEY and tags are numbers or names of constants in mirror_numbers.h. Attributes:

    4-12 | 12+ | 7     versions that have the field; all of the enclosing struct's when absent
    nullable [12+]     null is a value; in these versions only, when given
    tag N              a tagged field; it is written only when it differs from its default
    ignorable          dropped silently when a version without it is encoded; an error otherwise
    default V          the value meant when a version lacks the field: a number, true, or null
"""

import dataclasses
import re

PRIMITIVES = ("bool", "int8", "int16", "int32", "int64", "uuid", "string", "bytes", "records")


class SchemaError(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Versions:
    """First and last version, both inclusive; empty when first > last."""

    first: int
    last: int

    def has(self, version):
        return self.first <= version <= self.last

    def __contains__(self, other):
        return self.first <= other.first and other.last <= self.last

    def __str__(self):
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclasses.dataclass
class Field:
    name: str
    type: str  # without []
    is_array: bool
    versions: Versions
    within: Versions  # versions of the enclosing struct
    nullable: Versions | None = None
    tag: int | None = None
    tag_name: str | None = None  # the constant's name, or the digits
    ignorable: bool = False
    default: str | None = None
    note: str = ""  # attributes as written
    comment: str = ""
    struct: "Struct | None" = None

    @property
    def json_name(self):
        head, *tail = self.name.split("_")
        return head + "".join(part.capitalize() for part in tail)


@dataclasses.dataclass
class Struct:
    name: str
    versions: Versions
    fields: list[Field]

    def nested(self):
        """Every struct inside, the innermost first."""
        for field in self.fields:
            if field.struct:
                yield from field.struct.nested()
                yield field.struct


@dataclasses.dataclass
class Api:
    name: str
    key: str  # digits, or a constant of mirror_numbers.h
    versions: Versions
    flexible: int | None  # first flexible version
    comment: list[str]
    request: Struct = None
    response: Struct = None

    @property
    def file_name(self):
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    def is_flexible(self, version):
        return self.flexible is not None and version >= self.flexible


def read_constants(header):
    """The integer constants of a C++ header: name -> value."""
    found = re.findall(r"^inline constexpr int\w+ (k\w+) = (-?\d+);", header, re.MULTILINE)
    return {name: int(value) for name, value in found}


def parse_versions(text, within):
    if re.fullmatch(r"\d+\+", text):
        versions = Versions(int(text[:-1]), within.last)
    elif re.fullmatch(r"\d+-\d+", text):
        versions = Versions(*map(int, text.split("-")))
    elif re.fullmatch(r"\d+", text):
        versions = Versions(int(text), int(text))
    else:
        raise SchemaError(f"not a version range: {text!r}")
    if versions not in within:
        raise SchemaError(f"versions {text} are not within {within}")
    return versions


def parse_field(text, within, constants):
    declaration, *attributes = [part.strip() for part in text.split(",")]
    match = re.fullmatch(r"([a-z][a-z0-9_]*) (\[\])?([A-Za-z0-9]+)", declaration)
    if not match:
        raise SchemaError(f"not a field: {declaration!r}")
    name, array, type_name = match.groups()
    if type_name not in PRIMITIVES and not type_name[0].isupper():
        raise SchemaError(f"unknown type {type_name!r}")
    field = Field(name, type_name, bool(array), within, within, note=", ".join(attributes))
    for attribute in attributes:
        word, _, value = attribute.partition(" ")
        if word[0].isdigit():
            field.versions = parse_versions(attribute, within)
        elif word == "nullable":
            field.nullable = parse_versions(value, field.versions) if value else field.versions
        elif word == "tag":
            field.tag_name = value
            field.tag = int(value) if value.isdigit() else constants[value]
        elif attribute == "ignorable":
            field.ignorable = True
        elif word == "default":
            field.default = value
        else:
            raise SchemaError(f"unknown attribute {attribute!r}")
    if field.default == "null" and not field.nullable:
        raise SchemaError("null is the default of a field that is never null")
    return field


def check_struct(struct):
    names = [field.name for field in struct.fields]
    tags = [field.tag for field in struct.fields if field.tag is not None]
    for what, values in (("field", names), ("tag", tags)):
        repeated = {value for value in values if values.count(value) > 1}
        if repeated:
            raise SchemaError(f"{what} twice in {struct.name}: {repeated}")
    for field in struct.fields:
        if field.type in PRIMITIVES:
            continue
        if not field.struct:
            raise SchemaError(f"{struct.name}.{field.name}: {field.type} has no fields")
        check_struct(field.struct)


def parse(text, constants):
    """The Api a schema file describes. Raises SchemaError with the line's number."""
    api = None
    comment = []
    open_structs = []  # (indentation of its fields, Struct)
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        try:
            if not stripped:
                continue
            if stripped.startswith("#"):
                comment.append(stripped[1:].strip())
                continue
            indent = len(line) - len(line.lstrip())
            if indent == 0 and stripped.startswith("api "):
                head = re.fullmatch(r"api (\w+) (\w+), versions (\S+), flexible (\S+)", stripped)
                name, key, versions, flexible = head.groups()
                if not key.isdigit() and key not in constants:
                    raise SchemaError(f"{key} is not in mirror_numbers.h")
                api = Api(name, key, parse_versions(versions, Versions(0, 999)),
                          None if flexible == "none" else int(flexible.rstrip("+")), comment)
            elif indent == 0 and stripped in ("request", "response"):
                struct = Struct(api.name + stripped.capitalize(), api.versions, [])
                setattr(api, stripped, struct)
                open_structs = [(2, struct)]
            else:
                while open_structs and open_structs[-1][0] > indent:
                    open_structs.pop()
                if not open_structs or open_structs[-1][0] != indent:
                    raise SchemaError("indentation fits no struct")
                struct = open_structs[-1][1]
                field = parse_field(stripped, struct.versions, constants)
                field.comment = " ".join(comment)
                struct.fields.append(field)
                if field.type not in PRIMITIVES:
                    field.struct = Struct(field.type, field.versions, [])
                    open_structs.append((indent + 2, field.struct))
            comment = []
        except (SchemaError, AttributeError, KeyError) as error:
            raise SchemaError(f"line {number}: {stripped!r}: {error}") from error
    for message in (api.request, api.response):
        check_struct(message)
        nested = [struct.name for struct in message.nested()]
        if len(set(nested)) != len(nested):
            raise SchemaError(f"struct twice in {message.name}: {nested}")
    return api
