"""Commands on several releases: comparisons, maps, local images beside a release.

All but `match` read committed bytes alone.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.markup import escape
from rich.table import Table

from covdp.cli.options import PLAIN, DataRoot, Printing, Written
from covdp.cli.output import new_table, print_json
from covdp.cli.streams import complain
from covdp.errors import ConfigError, one_line, printable

if TYPE_CHECKING:
    from covdp.addons.partners.local_images import MatchedImages
    from covdp.addons.partners.several import DocumentSet
    from covdp.addons.partners.several_page import ReleaseComparison


PageOut = Annotated[Path | None, Written(help="Folder of a page [none is written].")]
MapsFile = Annotated[Path, Written(help="The file of maps, such as maps.json.")]


def compare(
    first: Path,
    second: Path,
    /,
    *,
    window: int | None = None,
    out: PageOut = None,
    output: Printing = PLAIN,
) -> None:
    """Test, class by class, whether two releases, or nights of streams, are of one population.

    Only released values are read: this costs no privacy. The releases must be of different people.
    The p-value of all classes together is the smallest one times the number of classes. A night is
    compared by its mean of all images so far, or with `--window` by that of the last nights. With
    `--out` a page is written, ``OUT/compare.html``, with the terms of both and their
    intervals.

    ```
    covdp compare hospital-a.json hospital-b.json
    covdp compare hospital-a.json hospital-b.json --out compared
    covdp compare monday.json friday.json --json
    covdp compare ours-2026-11-23.json theirs-2026-11-23.json --window 30
    ```

    Parameters
    ----------
    first
        Document of a release or a night, `OUT/release/*.json`.
    second
        Document of the other one.
    window
        Compare the last 1, 7, 30 or 90 nights of a stream, and not all so far.
    """
    from covdp.addons.partners.tests import two_sample

    _together(
        "compare",
        (first, second),
        lambda rows: two_sample(*rows),
        lambda test, tested: {**vars(test), **tested},
        out,
        output,
        window=window,
    )


def combine(
    *documents: Path, window: int | None = None, out: PageOut = None, output: Printing = PLAIN
) -> None:
    """Put the releases of several hospitals together, class by class, without moving an image.

    Only released values are read: this costs no privacy. If a person is in several releases, the
    budgets of these add up. Radii are of regions of 95 % without clipping; with `--json` a radius
    includes clipping. With `--out` a page is written, ``OUT/combine.html``, with each release
    beside the mean of all, and their intervals.

    ```
    covdp combine hospital-a.json hospital-b.json hospital-c.json
    covdp combine hospital-*.json --out combined
    covdp combine hospital-*.json --json
    ```

    Parameters
    ----------
    documents
        Documents of releases or nights, of different people, `OUT/release/*.json`.
    window
        Combine the last 1, 7, 30 or 90 nights of a stream, and not all so far.
    """
    from covdp.addons.partners.combine import combine as combined

    _together("combine", documents, combined, _combined, out, output, window=window)


def harmonise(*documents: Path, out: MapsFile, output: Printing = PLAIN) -> None:
    """Put descriptors of several sites on one scale, from releases alone: one map for each site.

    Only released values are read: this costs no privacy. Each site applies its own map with `covdp
    describe --map`. A site whose map would be noise stays as it is. A folder beside the maps,
    NAME-page, has the documents and a page: the distances of the sites before and after, and the
    difference of the classes that remains.

    ```
    covdp harmonise site-a.json site-b.json site-c.json --out maps.json
    covdp describe --dataset ward-card.toml --store ~/stores/ward --map maps.json --site site-a
    ```

    Parameters
    ----------
    documents
        Documents of releases or nights, of different people, `OUT/release/*.json`, one a site.
    """
    from covdp.addons.partners.foreign import computed
    from covdp.addons.partners.harmonise import harmonise as harmonised
    from covdp.addons.partners.maps import write_maps
    from covdp.addons.partners.several import read_several
    from covdp.addons.partners.several_page import ReleaseComparison, write_together
    from covdp.report import table_of

    several = read_several(documents)
    by_site = zip(several.names, zip(*several.classes.values(), strict=True), strict=True)
    with computed(documents):
        maps = harmonised(dict(by_site))
    paths = {"maps": write_maps(several, maps, out)}
    together = ReleaseComparison("harmonise", several, maps)
    folder = out.with_name(f"{out.stem}-page")
    paths["page"] = write_together(together, folder / "harmonise.html")
    _warn(several, output)
    keys = ("effect", "standard_error", "apart", "left", "spread", "reason")
    rows = [
        {"site": name, **{key: getattr(site, key) for key in keys}}
        for name, site in maps.sites.items()
    ]
    table = page_table(table_of("harmonise", "sites", together))
    output.answer({"sites": rows, "left_out": several.left_out}, table, paths=paths)


DIFFERS = 3
"""Exit code where local images differ from a release."""


def match(
    release: Path,
    /,
    *,
    dataset: str,
    data_root: DataRoot = None,
    window: int | None = None,
    out: PageOut = None,
    output: Printing = PLAIN,
) -> None:
    """Match local images, in the clear, with a release or a night of a stream.

    The command tests whether both are of one population, and names local images that are unlike the
    release. Classes are matched by their names. A class of the release needs n·μ of 500 or more,
    its images times its μ. The release must be of other people. Nothing is charged, and nothing is
    written but ``OUT/match.html``, ``OUT/match.csv`` with a row for each image, and a copy of the
    release. The output is as private as the images. If images and release differ, the exit code is
    3, so that a script can stop.

    ```
    covdp match partner.json --dataset ward-card.toml
    covdp match partner.json --dataset ward-card.toml --data-root /srv/images --out matched
    covdp match training.json --dataset ward-card.toml --json
    covdp match nightly-2026-11-23.json --dataset ward-card.toml --window 30
    ```

    Parameters
    ----------
    release
        The document of a release or of a night, `OUT/release/*.json`.
    dataset
        A name from `covdp datasets`, or a card of your own (a TOML file).
    window
        Match with the last 1, 7, 30 or 90 nights of a stream, and not all so far.
    """
    from covdp.addons.partners.local_images import match_images
    from covdp.addons.partners.several_page import build_match, match_verdict, together_with

    matched = match_images(release, dataset, data_root, window=window)
    paths = build_match(matched, out) if out else {}
    together = together_with(matched)
    verdict = match_verdict(together).text
    _warn(together.several, output)
    if output.json:
        print_json(_matched(matched, verdict) | ({"page": paths["page"]} if out else {}))
    else:
        _show_matched(together, verdict, output)
        output.paths(paths)
    if matched.differs:
        sys.exit(DIFFERS)
    if not matched.p_values:
        raise ConfigError(verdict)


def _show_matched(together: "ReleaseComparison", verdict: str, output: Printing) -> None:
    """Show verdict, classes, the images that are farthest, and those that cannot be used."""
    from covdp.report import table_of

    output.show(together.results.note)
    output.show(escape(verdict))
    for block in ("tests", "farthest"):
        output.show(page_table(table_of("match", block, together)))
    for fault in together.results.faults:
        line = f"{printable(fault.file, lines=False)} cannot be used: {one_line(fault.reason)}"
        output.show(f" {escape(line)}")


def _matched(matched: "MatchedImages", verdict: str) -> dict[str, Any]:
    """Return what was found of local images under the names that programs may rely on."""
    classes, found = [], ("outside", "expected", "expected_range")
    for name, entry in matched.classes.items():
        tested = _tested(getattr(entry.result, "p_value", math.nan), entry.untested)
        values = {key: getattr(entry.result, key, None) for key in found}
        classes.append({"name": name, "n": len(entry.local.places), **tested, **values})
    keys = ("class", "file", "percentile")
    return {
        "note": matched.note,
        "verdict": verdict,
        "differs": matched.differs,
        "p_value": matched.p_value,
        "classes": classes,
        "images": [dict(zip(keys, image, strict=True)) for image in matched.images],
        "faults": [fault._asdict() for fault in matched.faults],
        "left_out": matched.left_out,
    }


def export(
    release: Path,
    /,
    *,
    to: Literal["csv", "xlsx", "bids"],
    out: Annotated[Path, Written(help="Folder of the files; other content is not replaced.")],
    output: Printing = PLAIN,
) -> None:
    """Export a release, or a night, as tables: terms in words with intervals, and matrices.

    Intervals are those of the page of the release. For each class with a usable mean there are the
    mean, the covariance of its noise and, if a region is available, the covariance of single
    images; of a night also the means of the last nights. A table is a file with ``csv``, a sheet
    with ``xlsx``, and a TSV with a JSON sidecar with ``bids``. Only the document is read: this
    costs no privacy. `covdp verify`, not `export`, tells whether the document was changed.

    ```
    covdp export ward-2026-11-23.json --to csv --out tables
    covdp export ward-2026-11-23.json --to xlsx --out tables
    covdp export nightly-2026-11-23.json --to bids --out derivatives/covdp
    ```

    Parameters
    ----------
    release
        The document of a release or of a night, `OUT/release/*.json`.
    to
        Form of the files.
    """
    from covdp.addons.partners.export import export_document

    output.paths(export_document(release, to, out))


UNTESTED = "Not comparable: no class is tested, as these releases say too little."
"""Verdict where that is so."""


def _together(
    name: str,
    paths: Sequence[Path],
    work: Callable[[Any], Any],
    values_of: Callable[[Any, dict[str, Any]], dict[str, Any]],
    out: Path | None,
    output: Printing,
    *,
    window: int | None,
) -> None:
    """Print what is found of each class that all documents have; write its page if one is wanted.

    What makes it doubtful goes to standard error; exit codes are for what fails.

    Parameters
    ----------
    work : callable
        Function of the entries of a class in all documents to what is found of it.
    values_of : callable
        Function of that, and of its p-value and why there is none, to the values in JSON.
    """
    from covdp.addons.nights.changes import bonferroni
    from covdp.addons.partners.foreign import computed
    from covdp.addons.partners.several import read_several
    from covdp.addons.partners.several_page import ReleaseComparison, verdict, write_together
    from covdp.report import table_of

    several = read_several(paths, window=window)
    with computed(paths):
        results = {name: work(rows) for name, rows in several.classes.items()}
        together = ReleaseComparison(name, several, results)
        reasons = together.refusals
        pages = {"page": write_together(together, out / f"{name}.html")} if out else {}
    _warn(several, output)
    classes = [
        {"class": title, **values_of(result, _tested(result.p_value, reasons[title]))}
        for title, result in results.items()
    ]
    values: dict[str, Any] = {"classes": classes, "left_out": several.left_out}
    first = verdict(together).text if together.p_values else UNTESTED
    lines = [
        f" {escape(title)} is not tested: {escape(why)}" for title, why in reasons.items() if why
    ]
    if not together.combined:
        values["p_value"] = bonferroni(list(together.p_values.values()))
    table = page_table(table_of(name, "tests", together))
    output.answer(values, f"[bold]{escape(first)}[/]", table, *lines, paths=pages)


def _warn(several: "DocumentSet", output: Printing) -> None:
    """Say on standard error what makes documents doubtful, and which classes are left out."""
    if several.doubt and not output.quiet:
        complain(several.doubt)


def _combined(mean: Any, tested: dict[str, Any]) -> dict[str, Any]:
    """Return what releases of a class say together under the names that programs may rely on."""
    means = {
        title: {
            "point": where.centre.tolist(),
            "coordinates": where.space.log(where.space.origin, where.place).tolist(),
            "covariance": where.covariance.tolist(),
            "radius": where.radius,
            "offered": where.offered,
        }
        for title, where in (("all", mean.all), ("common", mean.common))
    }
    test = {"statistic": mean.statistic, "freedom": mean.freedom, **tested}
    return {"n": mean.n, "n_sd": mean.n_sd, **means, "heterogeneity": test}


def _tested(p_value: float, reason: str) -> dict[str, Any]:
    """Return a p-value for programs: none where nothing was tested, and why."""
    return {"p_value": math.nan if reason else p_value, "untested": reason or None}


def page_table(table: Mapping[str, Any] | None) -> Table:
    """Return a table of a page, of `covdp.report.page.table`, as a terminal has it.

    Parameters
    ----------
    table : mapping of str to object or None
        Table of a page: heads and lines; None for a table without rows.
    """
    heads, lines = (table["heads"], table["lines"]) if table else ((), ())
    rows = ([escape(printable(cell, lines=False)) for cell in line] for line in lines)
    return new_table(*(head[:1].lower() + head[1:] for head in heads), rows=rows)
