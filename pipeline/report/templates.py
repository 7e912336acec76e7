"""Templates of ``reports/templates``: what they know besides their values."""

import base64
from functools import cache
from typing import Any

from pipeline.figures import PALETTE, digits, firm, javascript, number, own_ids
from pipeline.files import resource


def draw(template: str, **values: Any) -> str:
    """Return what a template makes of `values`; every text is escaped."""
    page: str = templates().get_template(template).render(**values)
    return page


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
    environment.filters |= {"number": number, "digits": digits, "own_ids": own_ids, "link": _link}
    environment.globals |= {"palette": PALETTE, "shipped": _shipped, "library": javascript}
    return environment


def _shipped(name: str) -> str:
    """Return the text of a script or a style sheet of ``reports``."""
    return resource("reports", name).read_text(encoding="utf-8")


def _link(text: str, kind: str) -> str:
    """Return a text as an address that needs no file; tables have the mark of spreadsheets."""
    mark = "\ufeff" if kind == "text/csv" else ""
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(f'{mark}{text}'.encode()).decode()}"
