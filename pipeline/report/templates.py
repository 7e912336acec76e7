"""Templates of ``reports/templates``: what they know besides their values, and words for names."""

import base64
import json
import math
import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from covdp.figures import PALETTE, digits, firm, javascript, listing, number, own_ids, words
from covdp.figures.style import size_in_words
from covdp.files import resource
from covdp.privacy import best_test, certified, for_group, letter, main_parameter, success
from covdp.privacy.rounding import digits_down, digits_up, in_powers, two_digits
from covdp.privacy.statement import class_sentence, group_rule, protected_unit


def draw(template: str, **values: Any) -> str:
    """Return what a template makes of `values`; every text is escaped.

    Parameters
    ----------
    template : str
        File of the template in ``reports/templates``.
    **values : object
        Values that the template draws.
    """
    return str(templates().get_template(template).render(**values))


@cache
def templates() -> Any:
    """Return the templates, which know the scripts and styles, and how numbers are written."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource("reports", "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=firm,  # every text that a template shows; what has passed | e stays as it is
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (number, digits, finite, probability, size_in_words, listing, own_ids, letter)
    own = (
        _decimals,
        _link,
        _written,
        undivided,
        formula,
        at_most,
        at_least,
        percent,
        two_digits,
    )
    environment.filters |= {helper.__name__.lstrip("_"): helper for helper in (*filters, *own)}
    sentences = (class_sentence, group_rule, protected_unit)
    promises = (best_test, certified, for_group, main_parameter, success)
    environment.globals |= {helper.__name__: helper for helper in (*sentences, *promises)}
    environment.globals |= {"palette": PALETTE, "shipped": _shipped, "library": javascript}
    return environment


def at_most(value: float, digits: int) -> str:
    """Return a number in so many digits, rounded up, as people write it.

    Parameters
    ----------
    value : float
        Number.
    digits : int
        Number of significant digits.
    """
    return in_powers(digits_up(value, digits))


def at_least(value: float, digits: int) -> str:
    """Return a number in so many digits, rounded down, as people write it.

    Parameters
    ----------
    value : float
        Number.
    digits : int
        Number of significant digits.
    """
    return in_powers(digits_down(value, digits))


def undivided(text: str) -> str:
    """Return a title in which no line break parts a date, by no-break hyphens between digits.

    Parameters
    ----------
    text : str
        Title.
    """
    return re.sub(r"(?<=\d)-(?=\d)", "\u2011", text)


@cache
def expression(text: str) -> Callable[..., Any]:
    """Return what an expression of ``reports/report.toml`` makes of a row, given by its names.

    Parameters
    ----------
    text : str
        Expression in the language of the templates.
    """
    environment = templates().overlay(autoescape=False)
    evaluate: Callable[..., Any] = environment.compile_expression(text, undefined_to_none=False)
    return evaluate


def say(sentence: str, **values: Any) -> str:
    """Return what a macro of ``reports/templates/findings.txt.j2`` says of `values`.

    Parameters
    ----------
    sentence : str
        Name of the macro.
    **values : object
        Values that the sentence is about.
    """
    return str(getattr(_sentences(), sentence)(**values))


def say_each(sentence: str, **values: Any) -> tuple[str, ...]:
    """Return the same as the macro breaks it: a sentence or two each.

    Parameters
    ----------
    sentence : str
        Name of the macro.
    **values : object
        Values that the sentence is about.
    """
    return tuple(filter(None, say(sentence, **values).split("\n")))


@cache
def _sentences() -> Any:
    """Return the macros of sentences: they escape nothing, and line breaks of the file are none."""
    source = resource("reports", "templates", "findings.txt.j2").read_text(encoding="utf-8")
    environment = templates().overlay(autoescape=False, finalize=None)
    return environment.from_string(source.replace("\n", "")).module


def _shipped(name: str) -> str:
    """Return the text of a script or a style sheet of ``reports``."""
    return resource("reports", name).read_text(encoding="utf-8")


def _written(settings: Any) -> str:
    """Return settings as a file of JSON has them."""
    return json.dumps(settings, indent=2, ensure_ascii=False)


def probability(p: float) -> str:
    """Return a p-value as a paper prints it: one that many tests together raise to 1 as > 0.99.

    Parameters
    ----------
    p : float
        Probability, between 0 and 1.
    """
    if p > 0.99:
        return "> 0.99"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def finite(value: float) -> str:
    """Return a number with a true minus sign; a dash where there is none.

    Parameters
    ----------
    value : float
        Number, NaN where there is none.
    """
    return number(value).replace("-", "−")


def _decimals(value: float, count: int) -> str:
    """Return a number with so many decimals; a dash where there is none."""
    return f"{value:.{count}f}" if math.isfinite(value) else "–"


def percent(share: float) -> str:
    """Return a share in percent, from ten times on as a factor.

    Parameters
    ----------
    share : float
        Share, 1 being all.
    """
    if share >= 10.0:
        return f"{rough(share)} times"
    return f"{f'{100.0 * share:.0f}' if share >= 0.1 else rough(100.0 * share)} %"


def rough(value: float) -> str:
    """Return a number with two significant digits.

    Parameters
    ----------
    value : float
        Number.
    """
    return number(float(f"{value:.2g}"))


def _link(text: str, kind: str) -> str:
    """Return a text as an address that needs no file; tables have the mark of spreadsheets."""
    mark = "\ufeff" if kind == "text/csv" else ""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(f'{mark}{text}'.encode()).decode()}"


REGISTRIES: Mapping[str, str] = {
    "descriptor": "covdp.descriptors:DESCRIPTORS",
    "manifold": "covdp.geometry:MANIFOLDS",
    "mechanism": "covdp.mechanisms:MECHANISMS",
    "kind": "covdp.experiments:EXPERIMENT_KINDS",
}
"""Settings whose names are members of a registry, which say themselves what a paper says of them;
registries are read when they are asked for, as that of experiments takes long to import."""


def formula(descriptor: str) -> str:
    """Return the filters and the normalisation of a descriptor; of an unknown one nothing.

    Parameters
    ----------
    descriptor : str
        Name of a descriptor.
    """
    from covdp.descriptors import DESCRIPTORS

    return DESCRIPTORS[descriptor].formula if descriptor in DESCRIPTORS else ""


def word(table: str, name: str) -> str:
    """Return the words for a name; one that is not known stands for itself.

    Parameters
    ----------
    table : str
        Kind of the name: a table of ``reports/report.toml``, or a registry.
    name : str
        Name of a member.
    """
    text = words().get(table, {}).get(name)
    if text is None and table in REGISTRIES:
        members = pkgutil.resolve_name(REGISTRIES[table])
        text = members[name].in_words if name in members else None
    return f"“{name}”" if text is None else text  # "" says nothing of a default
