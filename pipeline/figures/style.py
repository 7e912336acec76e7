"""Style of all charts: colours, type, axes, and the way from a chart to a `Figure`.

A figure is drawn twice from one specification: as a static SVG that needs nothing, and as the
Vega-Lite JSON from which the page draws it again with tooltips. Text and grid carry classes, so
that the page's style sheet can recolour them for a dark screen.

Axes: title, scale and ticks; panels, their titles and widths; colours and shapes of series. They
are parts of a Vega-Lite specification, as dictionaries; the rest of each stands in
``reports/charts.json``.
"""

import csv
import io
import json
import math
import re
import textwrap
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.errors import ConfigError, OutputError
from covdp.files import make_folder, resource, write_whole
from covdp.privacy import letter

Chart = dict[str, Any]
"""A specification of Vega-Lite, or a part of one."""
VEGA_LITE = "https://vega.github.io/schema/vega-lite/v6.json"
TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal", "T": "temporal"}
"""Kinds of columns by their letter."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8833EE", "#8CBC68")
"""Distinguishable with every kind of colour vision (Okabe and Ito, 2008), on white and on black."""
POINT_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-left",
    "triangle-right",
)
INK = "#4b5563"

WIDTH = 960
"""Pixels that a picture may take beside the contents, on a screen of 1,280: its labels included."""
TALL = 1000
"""Pixels of height above which a picture is shown on demand."""
BAND_COLUMNS = {"low": "low95", "high": "high95"}
"""Headings of the ends of a band in a file of numbers."""
MARGIN = 20
"""Room around a picture that is taken away: fonts elsewhere are wider."""
ROOT = re.compile(r'width="([0-9.]+)" height="([0-9.]+)" viewBox="0 0 [0-9. ]+">')
"""End of the first tag of a picture."""
TIED = re.compile(r" (?=[=≈±×] ?[\d(]|[%°])|(?<=[=≈±×]) (?=[\d(])|(?<=\d) (?=(µs|ms|s|MB|GiB)\b)")
"""Blanks at which no title is to break."""
NUMBER_TEXT = re.compile(r"-?[\d.]+(e[+-]?\d+)?")


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
        Content of the picture, for a reader who cannot see it.
    caption : str
        Meaning of its marks.
    columns : mapping of str to str
        Headings of columns of its file of numbers, where not as in the specification; "" of those
        that it does not have.
    finding : str
        Heading of its block that states what the chart shows; "" where the declared one stays.
    """

    id: str
    title: str
    svg: str
    spec: Mapping[str, Any]
    alt: str
    caption: str
    columns: Mapping[str, str] = field(default_factory=dict)
    finding: str = ""

    @property
    def is_tall(self) -> bool:
        """True if the picture is higher than a screen, so that a page shows it on demand."""
        size = ROOT.search(self.svg)
        return size is not None and float(size[2]) > TALL

    @property
    def csv(self) -> str:
        """The numbers behind the marks, one line a mark; what is not known is empty.

        Names may come from elsewhere: one that a spreadsheet would run gets an apostrophe before.
        """
        rows = [row for rows in self.spec["datasets"].values() for row in rows]
        every = dict.fromkeys(name for row in rows for name in row)
        names = [name for name in every if self.columns.get(name, name)]
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n", extrasaction="ignore")
        writer.writerow({name: self.columns.get(name, name) for name in names})
        writer.writerows({name: inert(value) for name, value in row.items()} for row in rows)
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
        """Write the picture on white to `path`, which ends in ``.svg`` or ``.png``; return it.

        Parameters
        ----------
        path : Path
            Path that ends in ``.svg`` or ``.png``.

        Returns
        -------
        Path
            The path.
        """
        if path.suffix not in (".svg", ".png"):
            raise ConfigError(f"a picture is saved as .svg or .png, found {path}; choose one")
        spec = {**self.spec, "background": "white", "padding": MARGIN + 5}
        svg = path.suffix == ".svg"
        return write_whole(path, self.picture if svg else _convert(spec, "png", scale=2))


def inert(value: Any) -> Any:
    """Return a cell; text that spreadsheets take for a formula begins with an apostrophe.

    Parameters
    ----------
    value : object
        Text, number or nothing.
    """
    formula = isinstance(value, str) and value.lstrip()[:1] in {"=", "+", "-", "@"}
    return f"'{value}" if formula and not NUMBER_TEXT.fullmatch(value) else value


def finish(
    chart: Chart,
    records: Sequence[Mapping[str, Any]],
    *,
    name: str,
    title: str,
    alt: str,
    caption: str,
    legend: Sequence[str] = (),
    columns: Mapping[str, str] = MappingProxyType({}),
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> Figure:
    """Return the `Figure` of a chart of records, with the house style and its static picture.

    The names in `legend` decide how many of them fit side by side; `columns` are what columns of
    the file of numbers are called. The static picture shows the records that have the values in
    `chosen`.

    Parameters
    ----------
    chart : Chart
        Chart in Vega-Lite, without data.
    records : sequence of mapping of str to object
        Rows of numbers, by column.
    name : str
        Name of the figure and of its files.
    title : str
        Title of the figure.
    alt : str
        Text for those who do not see the picture.
    caption : str
        Sentences below the figure.
    legend : sequence of str
        Names in the legend.
    columns : mapping of str to str
        Headings of columns in the file of numbers, by name.
    chosen : mapping of str to str
        Values that the records of the static picture have, by column.
    """
    spec = {"$schema": VEGA_LITE, "config": house_style(legend), "data": {"name": "rows"}, **chart}
    shown = {**spec, "datasets": {"rows": _of_choice(records, chosen)}}
    if "layer" in spec:
        layers = [(layer, layer.get("data", {}).get("values", [{}])) for layer in spec["layer"]]
        parts = [(layer, _of_choice(values, chosen)) for layer, values in layers]
        shown["layer"] = [
            layer | ({"data": {"values": values}} if "data" in layer else {})
            for layer, values in parts
            if values
        ]
    picture = _convert(shown, "svg")
    spec["datasets"] = {"rows": records}
    return Figure(name, title, own_ids(picture), spec, alt, caption, columns)


def _of_choice(
    rows: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """Return the rows that have no other values than those in `chosen`."""
    return [row for row in rows if all(row.get(key, chosen[key]) == chosen[key] for key in chosen)]


def _convert(spec: Mapping[str, Any], kind: str, **options: Any) -> Any:
    """Return the picture of a specification: text of an SVG, bytes of a PNG."""
    import vl_convert

    convert = getattr(vl_convert, f"vegalite_to_{kind}")
    return convert(json.dumps(spec), allowed_base_urls=[], **options)


def load_charts() -> None:
    """Load what draws charts, which takes a second: in another thread before they are drawn."""
    _convert({"$schema": VEGA_LITE, "data": {"values": []}, "mark": "point"}, "svg")


def channel(column: str, **options: Any) -> Chart:
    """Return the channel of a column, whose kind follows its name: ``mean:Q``, ``class:N``.

    Parameters
    ----------
    column : str
        Name of the column.
    **options : object
        Further settings of the channel in Vega-Lite.
    """
    name, kind = column.split(":")
    return {"field": name, "type": TYPES[kind], **options}


def own_ids(svg: str, prefix: str = "") -> str:
    """Count the picture's clip paths from 0 and put `prefix` before their names.

    Without a prefix the same chart is the same text every time; with one, several pictures can
    share a page.

    Parameters
    ----------
    svg : str
        Picture as SVG.
    prefix : str
        Letters before each name.

    Returns
    -------
    str
        Picture with the new names.
    """
    order: dict[str, int] = {}

    def rename(match: re.Match[str]) -> str:
        return f"{match[1]}{prefix}clip{order.setdefault(match[2], len(order))}"

    return re.sub(r'(id="|url\(#)clip(\d+)', rename, svg)


@cache
def javascript() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that defines ``window.vegaEmbed``.

    Joining it takes more than two seconds, so it is stored in the user's cache.
    """
    import platformdirs

    script_file = (
        platformdirs.user_cache_path("covdp")
        / f"vega-embed-{metadata.version('vl-convert-python')}.js"
    )
    with suppress(OSError):
        return script_file.read_bytes().decode()
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    script = script.replace("</script", r"<\/script").replace("<!--", r"<\!--")
    with suppress(OutputError):
        make_folder(script_file.parent)
        write_whole(script_file, script)
    return script


def listing(names: Iterable[str], separator: str = ", ") -> str:
    """Return distinct words as a person lists them: "a, b and c".

    Parameters
    ----------
    names : iterable of str
        Words; repeated ones are left out.
    separator : str
        Text between all but the last two.

    Examples
    --------
    >>> from covdp.figures import listing
    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    names = list(dict.fromkeys(names))
    last = names[-1] if names else ""
    return separator.join(names[:-1]) + (" and " if len(names) > 1 else "") + last


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the values of each key, both in the order in which they come.

    Parameters
    ----------
    pairs : iterable of tuple of object
        Key and value of each item.
    """
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def firm(value: Any) -> Any:
    """Return a text in which no line break parts an equation, a product, or a share from its sign.

    No-break spaces stand in place of blanks there, and between a number and what it counts in.
    What is not plain text stays as it is.

    Parameters
    ----------
    value : object
        Text; anything else is returned as it is.
    """
    return TIED.sub("\u00a0", value) if type(value) is str else value


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """Return the words of Methods for each name, by the table of the setting that has it."""
    with resource("reports", "methods.toml").open("rb") as stream:
        return tomllib.load(stream)


def definition_words() -> Mapping[str, str]:
    """Return the words for each definition before "differential privacy", as in Methods."""
    texts = words()["definition"]
    return {name: text.partition(" differential privacy")[0] for name, text in texts.items()}


def is_log(values: Sequence[float]) -> bool:
    """Return True if positive values span so much that a logarithmic axis is better.

    Parameters
    ----------
    values : sequence of float
        Positive numbers.
    """
    return min(values) > 0 and max(values) / min(values) >= 8


def log_ticks(low: float, high: float) -> list[float]:
    """Return the ticks 1, 2, 5 of each decade in [low, high]; powers of ten when that is many.

    Parameters
    ----------
    low : float
        Lower end of the axis, above 0.
    high : float
        Upper end of the axis.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    ticks = [
        float(f"{tick:.6g}") for tick in ticks if low <= tick * 1.0001 and tick <= high * 1.0001
    ]
    return ticks if len(ticks) <= 7 else [x for x in ticks if f"{x:e}".startswith("1.0")]


def number(value: float) -> str:
    """Return `value` with three significant digits, as a person writes it.

    Parameters
    ----------
    value : float
        Number to write.

    Examples
    --------
    >>> from covdp.figures import number
    >>> number(0.012345), number(123456.0)
    ('0.0123', '1.23·10⁵')
    """
    if not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits.rstrip('0').rstrip('.')}·10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def digits(value: float) -> str:
    """Return `value` with three significant digits, zeros included: for columns of a table.

    Parameters
    ----------
    value : float
        Number to write.
    """
    plain = math.isfinite(value) and 1e-3 <= abs(value) < 1000
    return f"{value:#.3g}".removesuffix(".") if plain else number(value)


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def house_style(legend: Sequence[str] = ()) -> dict[str, Any]:
    """Return the config of Vega-Lite that all charts share; names decide the legend's columns.

    Parameters
    ----------
    legend : sequence of str
        Names in the legend.
    """
    config = chart_settings("house")
    longest = max((len(word) for word in legend), default=0)
    padding = 12 + longest  # letters may be wider where it is read
    columns = max(1, 860 // (40 + 7 * longest))
    config["legend"] |= {"columnPadding": padding, "columns": columns}
    return config


def chart_settings(name: str) -> dict[str, Any]:
    """Return a part of ``reports/charts.json``.

    Parameters
    ----------
    name : str
        Key in the file.
    """
    text = resource("reports", "charts.json").read_text(encoding="utf-8")
    settings: dict[str, Any] = json.loads(text)[name]
    return settings


def chart_of(name: str, **values: Any) -> Chart:
    """Return a chart of ``reports/charts.json``, with `values` where a text is "$" and a name.

    Parameters
    ----------
    name : str
        Key in the file.
    **values : object
        Values by the name that follows "$".
    """
    known = {"ink": INK, "blue": PALETTE[0], "orange": PALETTE[1], **values}

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: fill(item) for key, item in part.items()}
        if isinstance(part, list):
            return list(map(fill, part))
        return known[part[1:]] if isinstance(part, str) and part.startswith("$") else part

    chart: Chart = fill(chart_settings(name))
    return chart


LETTER = 8.4
"""Pixels that one letter of a panel's title takes at most, on average, in bold of 13 pixels."""
FEW_TICKS = 7
"""So many different values are their own ticks."""
LONG = 36
"""Letters of a title that still fit beside a panel; a longer one has two rows."""


class Axis(NamedTuple):
    """One axis: its title; whether it is linear, counts seconds, and may begin above zero.

    Attributes
    ----------
    title : str
        Title of the axis.
    linear : bool
        True for a linear axis.
    seconds : bool
        True if it counts seconds.
    cut : bool
        True if it may begin above zero.
    """

    title: str
    linear: bool = False
    seconds: bool = False
    cut: bool = False


def position(axis: Axis, values: NDArray[np.float64], *, along: bool) -> dict[str, Any]:
    """Return title, scale and ticks of a position: logarithmic where the values span a lot.

    Parameters
    ----------
    axis : Axis
        Quantity along the axis.
    values : array
        All numbers on it, bands included.
    along : bool
        True for an axis of places of measurement (ticks at few values), False for one of measured
        values (from zero).
    """
    low, high = float(values.min()), float(values.max())
    own = sorted({float(f"{value:.6g}") for value in values})
    log = not axis.linear and is_log([low, high])
    options: dict[str, Any] = {"labelOverlap": "greedy"}
    if along and len(own) <= FEW_TICKS:
        options["values"] = own
    elif log:
        options["values"] = log_ticks(low / 1.08, high * 1.08)
    else:
        options["tickCount"] = 6
    if "values" in options:
        options["format"] = ",.6~g"
    if axis.seconds:  # 500 µs, 2 ms, 14 s
        label = "replace(datum.label, regexp('[0-9.]+'), '$& ') + 's'"
        options |= {"format": "~s", "labelExpr": label}
    if log:
        scale = {"type": "log", "domain": [low / 1.08, high * 1.08], "nice": False}
    elif along:
        scale = {"zero": False, "nice": False, "padding": 8}
    else:
        scale = {"zero": not axis.cut}
    return {"title": _lines(axis.title), "scale": scale, "axis": options}


def down(field: str, names: Sequence[str], letters: int) -> Chart:
    """Return the axis of names one below the other, in lines of at most so many letters.

    Parameters
    ----------
    field : str
        Name of the column.
    names : sequence of str
        Names from top to bottom.
    letters : int
        Largest number of letters of a line.
    """
    texts = broken(names, names, letters)
    axis = {"domain": False, "ticks": False, "grid": True, "labelPadding": 8, "labelExpr": texts}
    return channel(f"{field}:N", sort=list(names), title=None, axis=axis)


def _lines(title: str) -> str | list[str]:
    """Return a title, in two rows where it is long: broken before its last "to the"."""
    head, separator, tail = title.rpartition(" to the ")
    return [head, f"to the {tail}"] if separator and len(title) > LONG else title


def look(field: str, names: Sequence[str], legend: Sequence[str]) -> Chart:
    """Return the channels of colour and of shape of names, by their places in the palette.

    Parameters
    ----------
    field : str
        The column of the names.
    names : sequence of str
        All of them, so that each looks the same whichever of them are drawn.
    legend : sequence of str
        The names in the legend; none without one.
    """
    shown = {"values": list(legend)} if legend else None
    colours, shapes = (
        {"domain": list(names), "range": [marks[x % len(marks)] for x in range(len(names))]}
        for marks in (PALETTE, POINT_SHAPES)
    )
    return {
        "color": channel(f"{field}:N", legend=shown, scale=colours),
        "shape": channel(f"{field}:N", legend=shown, scale=shapes),
    }


def budget_column(definitions: Iterable[str]) -> str:
    """Return the name of a column of budgets: ``budget_mu``; of several letters ``budget``.

    Parameters
    ----------
    definitions : iterable of str
        Names of the definitions in the table.
    """
    symbols = set(map(letter, definitions))
    names = {unicodedata.name(symbol).split()[-1].lower() for symbol in symbols}
    return f"budget_{names.pop()}" if len(names) == 1 else "budget"


def layout(count: int, across: int = 0) -> tuple[int, int]:
    """Return panels in a row, and the width of one in pixels.

    Parameters
    ----------
    count : int
        Number of panels.
    across : int
        Number of panels that belong together; any may stand in a row when 0.
    """
    across = min(across or (2 if count in (2, 4) else 3), count)
    return across, (WIDTH - 90) // across - 20


def broken(keys: Sequence[Any], titles: Sequence[str], letters: int) -> str:
    """Return the Vega expression of each key's title, in lines of at most so many letters.

    Parameters
    ----------
    keys : sequence of object
        Values of the column.
    titles : sequence of str
        Title of each key.
    letters : int
        Largest number of letters of a line.
    """
    return _by_value(keys, [wrapped(title, letters) for title in titles])


def _by_value(keys: Sequence[Any], lines: Sequence[Sequence[str]]) -> str:
    """Return the Vega expression of the lines of each key."""
    pairs = dict(zip(map(str, keys), lines, strict=True))
    return f"{json.dumps(pairs, ensure_ascii=False)}[datum.value]"


def wrapped(title: str, letters: int) -> list[str]:
    """Return a title in lines of at most so many letters.

    Parameters
    ----------
    title : str
        Title; no equation in it is broken.
    letters : int
        Largest number of letters of a line.
    """
    return textwrap.wrap(firm(title), letters) or [""]


def header(titles: Sequence[str], width: int, columns: int) -> Chart:
    """Return the header of panels of `width` pixels: a title that is longer takes several lines.

    Titles of one row of panels have equally many, so that the panels stand at one height.

    Parameters
    ----------
    titles : sequence of str
        Titles of the panels.
    width : int
        Width of a panel, in pixels.
    columns : int
        Number of panels in a row.
    """
    lines = [wrapped(title, int(width / LETTER)) for title in titles]
    for first in range(0, len(lines), columns):
        row = slice(first, first + columns)
        most = max(map(len, lines[row]))
        lines[row] = [[""] * (most - len(title)) + title for title in lines[row]]
    return {
        "labelAnchor": "start",
        "labelLimit": width + 16,
        "labelLineHeight": 16,
        "labelExpr": _by_value(titles, lines),
        "labels": titles != [""],
    }


def size_in_words(n: float, deviation: float) -> str:
    """Return a number of images or persons, with its standard deviation where it has one.

    Parameters
    ----------
    n : float
        Number of images or persons.
    deviation : float
        Standard deviation of that number; 0 where it is exact.
    """
    noise = f"{deviation:.2g}" if deviation < 99.5 else f"{deviation:,.0f}"
    return f"{n:,.0f} ± {noise}" if deviation else f"{n:,.0f}"
