"""Rules by which the script that verifies reads a document: its JSON Schema, place by place."""

from functools import cache
from typing import Any

from covdp.arrays import LARGEST, UPPER
from covdp.descriptors import DESCRIPTORS
from covdp.geometry import MANIFOLDS
from covdp.schema import json_schema

Rules = dict[str, list[Any]]
"""Place → types or ``=words``, least and largest size, fields it must have, or sides by word."""
JSON_TYPES = {"object": "dict", "array": "list", "string": "str", "boolean": "bool"}
JSON_TYPES |= {"null": "NoneType", "integer": "int", "number": "int float"}
"""Type of JSON → names of Python's."""


@cache
def document_rules() -> Rules:
    """Return the rules of every place in the document of a release, a night, a joint release."""
    schema, rules = json_schema(), Rules()
    sides = {name: kind.k for name, kind in DESCRIPTORS.items()}
    known = {"definition": ["gdp", "zcdp"], "noise": ["hardened", "float"], "descriptor": [*sides]}
    known["manifold"] = [name for name in MANIFOLDS if name.startswith("spd-")]
    for place in ("release", "night", "joint"):
        _add(rules, place, schema["$defs"][f"{place.title()}Document"], schema["$defs"])
        for name, words in known.items():
            rules[f"{place}.settings.{name}"][0] = [f"={word}" for word in words]
    rules["release.settings.descriptor"][3] = [*sides.values()]
    return rules


def _add(rules: Rules, place: str, part: dict[str, Any], named: dict[str, Any]) -> None:
    """Add what a part of the schema says of a place, and of all places in it."""
    if "$ref" in part:
        part = named[part["$ref"].rpartition("/")[2]]
    for one in part.get("anyOf", ()):
        _add(rules, place, one, named)
    if "anyOf" in part:
        return
    rule = rules.setdefault(place, [[], 0, LARGEST, []])
    words = part.get("enum", [part["const"]] if "const" in part else [])
    rule[0] += [f"={word}" for word in words] or JSON_TYPES[part["type"]].split()
    inside = {f"{i}": one for i, one in enumerate(part.get("prefixItems", ()))}
    inside |= part.get("properties", {}) | ({"*": part["items"]} if "items" in part else {})
    for number, least in ((1, "min"), (2, "max")):
        names = (f"{least}{what}" for what in ("imum", "Items", "Length"))
        rule[number] = next((part[name] for name in names if name in part), rule[number])
    rule[0] += ["upper"] if part.get("$comment") == UPPER else []
    rule[3] += part.get("required", [])
    for name, one in inside.items():
        _add(rules, f"{place}.{name}", one, named)
