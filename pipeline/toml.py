"""TOML that somebody wrote: read and checked, or one line that says where it is wrong.

A file that is no TOML is not quoted: any file may be named as a config or a card, and what a run
raises may be stored in logs. A key that is not known is refused with the nearest one that is, so a
misspelt budget can never fall back to a default.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from covdp.errors import ConfigError, CovdpError, closest
from covdp.files import IrregularFileError, read_regular

Model = TypeVar("Model", bound=BaseModel)

TOML_BYTES = 1 << 20
"""Bytes; a file of settings has a few thousand."""


class Record(BaseModel):
    """A frozen record that forbids unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def under(cls, key: str) -> type[BaseModel]:
        """Return the model of a table under a key, of a record that stands for several.

        Parameters
        ----------
        key : str
            Key of the table.
        """
        return cls


KIND_KEYS = {
    "experiment": {"mechanisms"},
    "config": {"population"},
    "card": {"kind", "classes"},
    "study": {"hospitals", "colluders"},
}
"""Keys that a file of each kind has, and one of the kinds after it has not."""
WAYS = {
    "experiment": "`covdp run --config` and `covdp reproduce` take it",
    "config": "`covdp plan`, `release` and `serve` take it after --config",
    "card": "`covdp start` makes the config of a release from it",
    "study": "`covdp join approve` and `covdp join run` take it",
}
"""Commands that take each kind of file."""


MUST = {
    "bool_type": "be true or false, without quotes",
    "float_parsing": "be a valid number without quotes",
    "float_type": "be a valid number without quotes",
    "int_type": "be a valid integer without quotes",
    "model_type": "be a table: its name in square brackets, and its keys in the lines below",
    "path_type": "be text in quotes",
    "string_type": "be text in quotes",
    "too_long": "have fewer values",
    "too_short": "have more values",
    "tuple_type": "be a list in square brackets",
    r"^[A-Za-z0-9][A-Za-z0-9-]*$": "have letters, digits and hyphens only, the first no hyphen",
    r"^[a-z0-9][a-z0-9-]*$": "have small letters, digits and hyphens only, the first no hyphen",
}
"""Demand on a value in the words of TOML, by the kind of a fault, or by its pattern."""


def to_toml(value: object, fault: type[CovdpError]) -> str:
    """Return a value as TOML: text, numbers, lists of them, and a flat table.

    Parameters
    ----------
    value : object
        Text, number, boolean, list of these, or flat mapping.
    fault : type of CovdpError
        Class of the error to raise.

    Raises
    ------
    CovdpError
        When a name is bytes that are no letters.
    """
    if isinstance(value, Mapping):
        pairs = (f"{key} = {to_toml(each, fault)}" for key, each in value.items())
        return "{ " + ", ".join(pairs) + " }"
    text = json.dumps(value, ensure_ascii=False)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise fault(f"{value!r} is a name that is no text, as TOML must be; rename it")
    return "".join(x if x.isprintable() else f"\\U{ord(x):08X}" for x in text)


def read_toml(path: Path, fault: type[CovdpError], what: str) -> dict[str, Any]:
    """Return the keys of a TOML file; `what` says what the file should be.

    Parameters
    ----------
    path : Path
        Path of the TOML file.
    fault : type of CovdpError
        Class of the error to raise.
    what : str
        Noun for the file, such as "config".

    Raises
    ------
    fault
        Where it cannot be read, is no TOML, or is plainly a file of another kind.
    """
    try:
        content = read_regular(path, TOML_BYTES)
    except IrregularFileError as error:
        raise fault(
            f"{path} is {error.strerror}, so no {what}; give the path of a TOML file"
        ) from error
    except OSError as error:
        raise fault(
            f"cannot read the {what} {path} ({error.strerror}); check its path and mode"
        ) from error
    place = ""
    try:
        fields = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        place = "it is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"\(at (line \d+, column \d+|end of document)\)$", str(error))
        place = f"at {position[1]}" if position else "see https://toml.io"
        if str(error).startswith(("Cannot ", "Duplicate ")):
            place = f"a key or table is given twice, {place}; leave one out"
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets
        place = "no settings are as long or as deep"
    else:
        other = next((kind for kind, keys in KIND_KEYS.items() if keys <= fields.keys()), what)
        if other == what or KIND_KEYS[what] & fields.keys():
            return fields
        names = {"card": "the card of a dataset", "config": "the config of a release"}
        names |= {"study": "the terms of a joint study"}
        is_a, asked = (names.get(kind, f"an {kind}") for kind in (other, what))
        raise fault(f"{path} is {is_a}, and not {asked}: {WAYS[other]}")
    raise fault(f"the {what} {path} is not valid TOML: {place}")  # outside: no cause to quote


def parse(
    model: type[Model],
    fields: Mapping[str, Any],
    source: Path | str,
    fault: type[CovdpError] = ConfigError,
) -> Model:
    """Validate `fields` as `model`; the first fault becomes one `fault` that names `source`.

    Parameters
    ----------
    model : type of pydantic.BaseModel
        Pydantic model to validate as.
    fields : mapping of str to object
        Keys and values of the document.
    source : Path or str
        Name of the document in messages, usually its path.
    fault : type of CovdpError
        Class of the error to raise.

    Returns
    -------
    pydantic.BaseModel
        Validated model.
    """
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    first = min(errors, key=lambda item: item["type"] != "extra_forbidden")  # it may mask another
    said = [str(x) for x in first["loc"] if x != "[key]"]
    kind, way = first["type"], [x for x in said if not x.startswith("tuple[")]
    if kind == "missing" and way[-1].isdecimal():  # a value of a list
        kind, way = "too_short", way[:-1]
    place = ".".join(way)
    if kind == "missing":
        raise fault(f"{source}: key {place!r} is missing")
    if kind == "extra_forbidden":
        others = [name for name in _keys(model, way[:-1]) if way[:-1] or name not in fields]
        raise fault(f"{source}: {unknown_key(place, way[-1], others)}")
    value = first["input"]
    shown = value if isinstance(value, date | time) else repr(value)
    rule = _rule(kind, first["msg"], first.get("ctx", {}).get("pattern"))
    where = f"key {place!r}: " if place else ""
    found = f", found {shown}" if place and ", found " not in rule else ""
    raise fault(f"{source}: {where}{rule}{found}")


def _rule(kind: str, message: str, pattern: str | None) -> str:
    """Return what a value must be, or what was raised of it."""
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    rule = MUST.get(kind) or MUST.get(str(pattern)) or message.partition(" should ")[2]
    return f"must {rule}" if rule else message


def unknown_key(place: str, key: str, others: Iterable[str]) -> str:
    """Write that a key is not known, and which of the `others` may be meant.

    Parameters
    ----------
    place : str
        Dotted path of the key.
    key : str
        Last part of the path.
    others : iterable of str
        Keys that are known there.

    Returns
    -------
    str
        Sentence for a message, with its way out.
    """
    others = sorted(others)
    hint = closest(key, others).strip() or f"other keys: {', '.join(others)}"
    return f"key {place!r} is not known; {hint}"


def _keys(model: type[BaseModel], way: list[str]) -> list[str]:
    """Return the keys that a file may have in the table that `way` leads to, down from `model`."""
    for part in way:
        if part in model.model_fields:
            table = next(_tables(model.model_fields[part].annotation), model)
            model = table.under(part) if issubclass(table, Record) else table
    return [name for name in model.model_fields if name not in getattr(model, "unwritten", ())]


def _tables(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the records inside an annotation such as ``tuple[Record, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _tables(part)
