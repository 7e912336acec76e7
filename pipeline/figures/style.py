"""What all charts share: colours, type, axes, and the way from an Altair chart to a `Figure`.

A figure is drawn twice from one specification: as a static SVG that needs nothing, and as the
Vega-Lite JSON from which the page draws it again with tooltips. Text and grid carry classes, so
that the page's style sheet can recolour them for a dark screen.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader

from pipeline.errors import ConfigError, OutputError
from pipeline.files import atomic_path, make_folder

if TYPE_CHECKING:
    import altair

alt: Any = lazy_loader.load("altair")  # takes a second: when it is first used

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8833EE", "#8CBC68")
"""Distinguishable with every kind of colour vision (Okabe and Ito, 2008), on white and on black."""
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-left",
    "triangle-right",
)
INK, GRID = "#4b5563", "#e5e7eb"

DEFINITIONS: Mapping[str, str] = {
    "pure": "pure differential privacy",
    "approx": "approximate differential privacy",
    "gdp": "Gaussian differential privacy",
    "rdp": "Rényi differential privacy",
    "zcdp": "zero-concentrated differential privacy",
    "rao": "Rao differential privacy",
    "kl": "Kullback-Leibler differential privacy",
    "mcdp": "mean-concentrated differential privacy",
}
"""Each definition in words."""


MARGIN = 20
"""Room around a picture that is taken away: fonts elsewhere are wider."""
ROOT = re.compile(r'width="([0-9.]+)" height="([0-9.]+)" viewBox="0 0 [0-9. ]+">')
"""How the first tag of a picture ends."""
NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?")


@dataclass(frozen=True)
class Figure:
    """A chart ready for the page.

    Attributes
    ----------
    id, title : str
        Name within its section, and heading.
    svg : str
        The static picture, an ``<svg>`` element.
    spec : mapping
        The Vega-Lite specification of the same picture, for the interactive version.
    alt : str
        What the picture shows, for a reader who cannot see it.
    caption : str
        What its marks stand for.
    columns : mapping of str to str
        What columns of its file of numbers are called, where not as in the specification.
    """

    id: str
    title: str
    svg: str
    spec: Mapping[str, Any]
    alt: str
    caption: str
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def csv(self) -> str:
        """The numbers behind the marks, one line a mark; what is not known is empty.

        Names may come from elsewhere: one that a spreadsheet would run gets an apostrophe before.
        """
        rows = [row for rows in self.spec["datasets"].values() for row in rows if row]
        names = dict.fromkeys(name for row in rows for name in row)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writerow({name: self.columns.get(name, name) for name in names})
        writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
        return text.getvalue()

    @property
    def picture(self) -> str:
        """The static picture on white, with a margin, as a file of its own."""

        def widen(root: re.Match[str]) -> str:
            wide, high = (float(side) + 2 * MARGIN for side in root.groups())
            size, corner = f'width="{wide:g}" height="{high:g}"', f"{-MARGIN} {-MARGIN}"
            paper = f'<rect x="{-MARGIN}" y="{-MARGIN}" {size} fill="white"/>'
            return f'{size} viewBox="{corner} {wide:g} {high:g}">{paper}'

        return ROOT.sub(widen, self.svg, count=1)

    def save(self, path: Path) -> Path:
        """Write the picture on white to `path`, which ends in ``.svg`` or ``.png``; return it."""
        if path.suffix not in (".svg", ".png"):
            raise ConfigError(f"a picture is saved as .svg or .png, found {path}; choose one")
        spec = {**self.spec, "background": "white", "padding": MARGIN + 5}
        svg = path.suffix == ".svg"
        drawn = self.picture.encode() if svg else _convert(spec, "png", scale=2)
        with atomic_path(path) as temporary:
            temporary.write_bytes(drawn)
        return path


def _inert(value: Any) -> Any:
    """Return a cell; text that spreadsheets take for a formula begins with an apostrophe."""
    formula = isinstance(value, str) and value.lstrip()[:1] in {"=", "+", "-", "@"}
    return f"'{value}" if formula and not NUMBER.fullmatch(value) else value


def finish(
    chart: "altair.TopLevelMixin",
    *,
    name: str,
    title: str,
    alt: str,
    caption: str,
    legend: Sequence[str] = (),
) -> Figure:
    """Return the `Figure` of an Altair chart, with the house style and its static picture.

    The names in `legend` decide how many of them fit side by side.
    """
    spec = specification(chart, legend)
    return Figure(name, title, own_ids(_convert(spec, "svg")), spec, alt, firm(caption))


def _convert(spec: Mapping[str, Any], kind: str, **options: Any) -> Any:
    """Return the picture of a specification: text of an SVG, bytes of a PNG."""
    import vl_convert

    version = re.search(r"/v(\d+\.\d+)", str(spec["$schema"]))
    convert = getattr(vl_convert, f"vegalite_to_{kind}")
    number = version[1] if version else None
    return convert(json.dumps(spec), vl_version=number, allowed_base_urls=[], **options)


def specification(chart: "altair.TopLevelMixin", legend: Sequence[str] = ()) -> dict[str, Any]:
    """Return the Vega-Lite specification of an Altair chart in the house style."""
    found: dict[str, Any] = chart.configure(**house_style(legend)).to_dict()
    return found


def own_ids(svg: str, prefix: str = "") -> str:
    """Count the picture's clip paths from 0 and put `prefix` before their names.

    Without a prefix the same chart is the same text every time; with one, several pictures can
    share a page.
    """
    order: dict[str, int] = {}

    def rename(found: re.Match[str]) -> str:
        return f"{found[1]}{prefix}clip{order.setdefault(found[2], len(order))}"

    return re.sub(r'(id="|url\(#)clip(\d+)', rename, svg)


@cache
def javascript() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that defines ``window.vegaEmbed``.

    Joining it takes more than two seconds, so it is kept in the user's cache.
    """
    import platformdirs

    kept = (
        platformdirs.user_cache_path("covdp")
        / f"vega-embed-{metadata.version('vl-convert-python')}.js"
    )
    with suppress(OSError):
        return kept.read_bytes().decode()
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    script = script.replace("</script", r"<\/script").replace("<!--", r"<\!--")
    with suppress(OutputError):
        make_folder(kept.parent)
        with atomic_path(kept) as temporary:
            temporary.write_bytes(script.encode())
    return script


def listing(words: Iterable[str], separator: str = ", ") -> str:
    """Return distinct words as a person lists them: "a, b and c"."""
    words = list(dict.fromkeys(words))
    last = words[-1] if words else ""
    return separator.join(words[:-1]) + (" and " if len(words) > 1 else "") + last


def firm(text: str) -> str:
    """Return `text` with equations that no line break parts: no-break spaces around "="."""
    return text.replace(" = ", "\u00a0=\u00a0")


def is_log(values: Sequence[float]) -> bool:
    """Tell whether positive values span so much that a logarithmic axis shows them better."""
    return min(values) > 0 and max(values) / min(values) >= 8


def log_ticks(low: float, high: float) -> list[float]:
    """Return the ticks 1, 2, 5 of each decade in [low, high]; powers of ten when that is many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    ticks = [
        float(f"{tick:.6g}") for tick in ticks if low <= tick * 1.0001 and tick <= high * 1.0001
    ]
    return ticks if len(ticks) <= 7 else [x for x in ticks if f"{x:e}".startswith("1.0")]


def number(value: float) -> str:
    """Return `value` with three significant digits, as a person writes it."""
    if not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits.rstrip('0').rstrip('.')}·10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def digits(value: float) -> str:
    """Return `value` with three significant digits, zeros kept: for columns of a table."""
    plain = math.isfinite(value) and 1e-3 <= abs(value) < 1000
    return f"{value:#.3g}".removesuffix(".") if plain else number(value)


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def house_style(legend: Sequence[str] = ()) -> dict[str, Any]:
    """Return the config of Vega-Lite that all charts share; names decide the legend's columns."""
    longest = max((len(word) for word in legend), default=0)
    widest = 40 + 7 * longest
    axis = {
        "domainColor": INK,
        "gridColor": GRID,
        "labelColor": INK,
        "labelFontSize": 11,
        "labelLimit": 260,
        "tickColor": INK,
        "tickSize": 4,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    }
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelLimit": 400}
    return {
        "aria": False,
        "background": "transparent",
        "font": "sans-serif",
        "axis": axis,
        "header": {**text, "labelFontSize": 13, "labelFontWeight": "bold", "title": None},
        "legend": {
            **text,
            "orient": "top",
            "title": None,
            "symbolSize": 90,
            "columnPadding": 12 + longest,  # letters may be wider where it is read
            "columns": max(1, int(860 / widest)),
        },
        "view": {"stroke": None},
    }
