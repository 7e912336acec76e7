"""The pages on documents of several: `covdp compare`, `combine`, `harmonise` and `match`.

All are made from documents of releases alone, but that of `match`, which is of local images too, in
the clear: it is as private as they are, and names single files and their percentiles.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from covdp.addons.nights.changes import ALPHA, bonferroni
from covdp.addons.nights.schema import NightClassPart
from covdp.addons.nights.timelines import comparison
from covdp.addons.partners.harmonise import Harmonisation
from covdp.addons.partners.local_images import ClassMatch, MatchedImages, write_percentiles
from covdp.addons.partners.match import FLAGGED, Match
from covdp.addons.partners.several import CommittedDocument, DocumentSet
from covdp.addons.partners.tests import comparison_refusal
from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.figures import Figure, digits, grouped, listing, matrices
from covdp.figures.style import size_in_words
from covdp.files import make_folder, owner_only
from covdp.geometry import chart_of, frechet_mean, from_chart, to_chart
from covdp.inference import certainty_refusal, clipping_moves, covariance, usual_difference
from covdp.inference.released import chart_jacobian
from covdp.mean.noisy_moments import congruent
from covdp.publish.document import write_document
from covdp.publish.readings import Mean, read_terms
from covdp.report.methods import Methods, methods, of_document
from covdp.report.page import Finding, signed, write_page
from covdp.report.readings import as_gain, numbers_of
from covdp.report.release_page import protected_by
from covdp.report.templates import percent, probability, say, word
from covdp.schema import ClassEntry, Document, SettingsPart

ALL, COMMON, LOCAL = "mean of all", "common mean", "local images"
FARTHEST_IMAGES = 20
"""Images that the page and the terminal name; the CSV file has all."""


@dataclass(frozen=True, eq=False)
class ReleaseComparison:
    """Releases, and the results of their comparison.

    Attributes
    ----------
    name : str
        Name of the page that shows it.
    several : DocumentSet
        Documents of the releases, and the classes that all of them have.
    results : object
        `Comparison` or `CombinedMean` of each class by its name, `Harmonisation`, or
        `MatchedImages`.
    files : sequence of Path
        The committed bytes of each release, beside the page once it is written.
    """

    name: str
    several: DocumentSet
    results: Any
    files: Sequence[Path] = ()

    @property
    def settings(self) -> SettingsPart:
        """Settings of the first: all have its descriptor and its privacy unit."""
        return self.several.documents[0].settings

    @cached_property
    def refusals(self) -> dict[str, str]:
        """Reason of each class that was not tested; "" where it was."""
        return {
            name: ""
            if getattr(result, "freedom", 0)
            else comparison_refusal(self.several.by_name(name))
            for name, result in self.results.items()
        }

    @property
    def tested(self) -> dict[str, tuple[ClassEntry, ...]]:
        """The classes that were tested: no other is drawn."""
        rows = self.several.classes.items()
        return {name: tuple(both) for name, both in rows if not self.refusals[name]}

    @property
    def p_values(self) -> dict[str, float]:
        """P-values of the classes that were tested."""
        return {
            name: result.p_value for name, result in self.results.items() if not self.refusals[name]
        }

    @property
    def sound(self) -> bool:
        """True if every test is sound."""
        results = (self.results[name] for name in self.p_values)
        return all((result.all if self.combined else result).offered for result in results)

    @property
    def p_value(self) -> float:
        """P-value of all tested classes together (Bonferroni); NaN without any."""
        return bonferroni(list(self.p_values.values()))

    @property
    def combined(self) -> bool:
        """True if the releases were combined, not compared."""
        return self.name == "combine"

    @property
    def documents(self) -> dict[str, Document]:
        """Document of each release, by its name."""
        parts = zip(self.several.names, self.several.documents, strict=True)
        return {name: part.document for name, part in parts}

    @property
    def is_safe(self) -> bool:
        """True if all noise is hardened, so safe to publish."""
        return all(document.settings.is_safe for document in self.documents.values())

    @property
    def units(self) -> str:
        """Number of images or persons, in words."""
        return units_in_words(self.several.documents)

    @property
    def dated(self) -> str:
        """Names of the releases, with population and run of each."""
        settings = [document.settings for document in self.documents.values()]
        return listing(
            f"{name} (population {item.population}, run {item.run_key})"
            for name, item in zip(self.several.names, settings, strict=True)
        )


def write_together(together: ReleaseComparison, page: Path) -> Path:
    """Write a page of the declaration, and the committed bytes beside it; return its path.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    page : Path
        HTML file that is written.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    make_folder(page.parent)
    contents = [document.content for document in together.several.documents]
    files = [write_document(content, page.parent).relative_to(page.parent) for content in contents]
    return write_page(page, together.name, replace(together, files=files))


def promises(together: ReleaseComparison) -> list[tuple[str, Iterable[tuple[str, str]]]]:
    """Return what each release promises.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    return [(name, document.statement) for name, document in together.documents.items()]


def protected(together: ReleaseComparison) -> str:
    """Return who each release protects, none where one protects nobody; local images are not.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    local = isinstance(together.results, MatchedImages)
    return protected_by(together.documents, local=local)


def several_methods(together: ReleaseComparison) -> Methods:
    """Return what a paper says of the releases, and of what was made of them.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    sentences = {name: of_document(item) for name, item in together.documents.items()}
    return methods(sentences, more=word("analysis", together.name))


def verdict(together: ReleaseComparison) -> Finding:
    """Say what was found, and what that does not mean; with what could not be tested, and why.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.

    Returns
    -------
    Finding
        Sentences at the head of the page; a warning where something is wrong or not tested.
    """
    p_values = together.p_values
    missing = {name: reason for name, reason in together.refusals.items() if reason}
    if not p_values:
        return untested(missing)
    p, sound = together.p_value, together.sound
    text = say(
        "several",
        found=f"({p_in_words(p)}, {_of_classes(p_values)})",
        differs=p < ALPHA,
        combined=together.combined,
        sound=sound,
        surest=min(p_values, key=p_values.__getitem__),
        contrasts=[
            f"{_least_contrast(together.several.classes[name], least)} in {name}"
            for name in together.p_values
            if math.isfinite(least := getattr(together.results[name], "least", math.nan))
        ],
        missing=reasons(missing),
    )
    bad = together.combined and p < ALPHA
    return Finding(text, warning=bad or not sound or bool(missing))


def units_in_words(several: Sequence[CommittedDocument]) -> str:
    """Return how many images or persons releases have: where labels are secret, as they state.

    Of the last nights of such a stream as it counted them, with the standard deviation of that.

    Parameters
    ----------
    several : sequence of CommittedDocument
        Documents of the releases.
    """
    total, deviation = 0, 0.0
    for document in several:
        rows, public = document.document.classes, document.settings.total
        total += public or sum(row.n for row in rows)
        deviation = math.hypot(deviation, *(0.0 if public else row.n_sd for row in rows))
    return size_in_words(total, deviation)


def size_together(rows: Sequence[ClassEntry]) -> str:
    """Return how many images or persons a class has in all releases, in words.

    Parameters
    ----------
    rows : sequence of ClassEntry
        Entry of the class in each document.
    """
    return size_in_words(sum(row.n for row in rows), math.hypot(*(row.n_sd for row in rows)))


def untested(refusals: Mapping[str, str]) -> Finding:
    """Say that no class was tested, and why.

    Parameters
    ----------
    refusals : mapping of str to str
        Reason of each class.

    Returns
    -------
    Finding
        Sentence at the head of the page, a warning.
    """
    return Finding(f"Nothing could be tested: {reasons(refusals)}.", warning=True)


def reasons(refusals: Mapping[str, str]) -> str:
    """Return why classes were not tested: each reason once, with all classes that it holds for.

    Parameters
    ----------
    refusals : mapping of str to str
        Reason of each class.
    """
    classes = grouped((reason, name) for name, reason in refusals.items())
    return "; ".join(f"{listing(names)}, because {reason}" for reason, names in classes.items())


def _of_classes(p_values: Mapping[str, float]) -> str:
    return "all tested classes together" if len(p_values) > 1 else "one class"


def p_in_words(p: float) -> str:
    """Return a p-value as a sentence has it.

    Parameters
    ----------
    p : float
        Probability, between 0 and 1.
    """
    printed = probability(p)
    return f"p {'' if printed[0] in '<>' else '= '}{printed}"


def tests(together: ReleaseComparison) -> list[dict[str, Any]]:
    """Return a row per class: what was found, how large the class is, and whether it was tested.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    classes = together.several.classes
    return [
        {
            "name": name,
            "result": result,
            "tested": not together.refusals[name],
            "sizes": [size_in_words(row.n, row.n_sd) for row in classes[name]],
            "size": size_together(classes[name]),
            "contrast": _least_contrast(classes[name], getattr(result, "least", math.nan)),
            "share": _share(classes[name][0], getattr(result, "distance", math.nan)),
        }
        for name, result in together.results.items()
    ]


def _share(row: ClassEntry, distance: float) -> str:
    """Return a distance over that of usual classes; a dash where not known."""
    if not math.isfinite(distance):
        return "–"
    side = len(from_chart(row.manifold, row.place))
    return percent(distance / usual_difference(row.manifold, side))


def _least_contrast(rows: Sequence[ClassEntry], least: float) -> str:
    """Return what difference of contrast is detected, in percent; a dash where not known."""
    if not math.isfinite(least):
        return "–"
    first = max(rows, key=lambda row: row.n)
    point = from_chart(first.manifold, first.place)
    return f"± {100.0 * (as_gain(first.manifold, point, least) - 1.0):.2g} %"


def basis(together: ReleaseComparison) -> dict[str, Any]:
    """Return why means of releases have no region: release, class and reason.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    several = together.several
    return {
        "refusals": [
            (title, name, reason)
            for name, rows in several.classes.items()
            for title, row in zip(several.names, rows, strict=True)
            if (reason := certainty_refusal(row))
        ]
    }


def documents(together: ReleaseComparison) -> list[tuple[str, CommittedDocument, Path, str]]:
    """Return of each document how it is called, its file, and how many records it is of.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    several = together.several
    pairs = zip(several.names, several.documents, together.files, strict=True)
    return [(name, document, path, units_in_words([document])) for name, document, path in pairs]


def means(together: ReleaseComparison) -> Figure | None:
    """Return the released means as squares, those of a tested class one beside the other.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    spec, several = DESCRIPTORS.get(together.settings.descriptor), together.several
    if spec is None or not together.tested:
        return None
    squares: dict[str, Any] = {}
    for name, rows in together.tested.items():
        points = dict(zip(several.names, (row.point for row in rows), strict=True))
        if together.combined:
            points[ALL] = together.results[name].all.centre
        squares |= {f"{name}: {title}": point for title, point in points.items()}
    across = len(squares) // len(together.tested)
    return matrices(squares, spec.features, across=across)


def class_means(together: ReleaseComparison) -> Iterator[tuple[str, dict[str, Mean]]]:
    """Yield the classes that charts show, and of each the means of populations, by their names.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    """
    several, results = together.several, together.results
    if isinstance(results, MatchedImages):
        for name, c in results.classes.items():
            if c.result is not None and c.result.n > 1:  # one image has no band
                yield name, {results.release.name: population_mean(c.row), LOCAL: _local_mean(c)}
        return
    if isinstance(results, Harmonisation):
        for name, rows in several.classes.items():
            means = dict[str, Mean]()
            for site, mean in zip(several.names, map(population_mean, rows), strict=True):
                means |= {
                    f"{site}, before": mean,
                    f"{site}, after": mapped_mean(mean, results, site),
                }
            yield name, means
        return
    for name, rows in together.tested.items():
        means = dict(zip(several.names, map(population_mean, rows), strict=True))
        if together.combined:
            regions = {ALL: results[name].all, COMMON: results[name].common}
            means |= {x: Mean(w.place, w.noise, moves=w.moves) for x, w in regions.items()}
        yield name, means


def _local_mean(match: ClassMatch) -> Mean:
    """Return the mean of local records as that of the population they are from."""
    places, space = match.local.places, match.row.space
    point = frechet_mean(places, space).point
    scatter = np.cov(space.log(point, places), rowvar=False) / len(places)
    return Mean(point, scatter, point, moves=())


def mapped_mean(mean: Mean, maps: Harmonisation, site: str) -> Mean:
    """Return a mean where the map of its site leads, with the error that is moved with it.

    Parameters
    ----------
    mean : Mean
        Mean of a class of the site.
    maps : Harmonisation
        Maps of the sites.
    site : str
        Name of the site.
    """
    if mean.point is None or mean.covariance is None:
        return mean
    leads, manifold, space = maps.map_of(site), maps.manifold, chart_of(maps.manifold)
    start = mean.point if mean.base is None else mean.base
    own = chart_jacobian(space, start, space.log(start, mean.point), maps.base)
    error = congruent(congruent(mean.covariance, own), leads.matrix.T)
    point = to_chart(manifold, leads(from_chart(manifold, mean.point)))
    return Mean(point, error, maps.base)


def forest_figure(together: ReleaseComparison, *, marks: str) -> Figure | None:
    """Return what each mean says in each term, classes side by side; None without terms.

    Parameters
    ----------
    together : ReleaseComparison
        Releases, and the results of their comparison.
    marks : str
        Meaning of the marks, the caption of the figure.
    """
    spec, classes = DESCRIPTORS.get(together.settings.descriptor), dict(class_means(together))
    terms = terms_of(spec) if spec else ()
    records = [
        {
            "term": f"{item.term.title} ({item.term.unit})" if item.term.unit else item.term.title,
            "class": name,
            "mean": title,
            **numbers_of(item, "least", "most"),
        }
        for name, means in classes.items()
        for title, mean in means.items()
        for item in read_terms(terms, mean, together.several.classes[name][0].manifold)
    ]
    figure = comparison(
        records,
        name="forest",
        title="Terms",
        along="mean",
        classes=list(together.several.classes),
        caption=marks,
    )
    return figure and replace(figure, finding=_found(together, records))


def _found(together: ReleaseComparison, records: Sequence[Mapping[str, Any]]) -> str:
    """Return what a chart of terms shows, as the tests of the page judge it; "" without a test."""
    results = together.results
    if isinstance(results, Harmonisation):
        mapped = {name: site for name, site in results.sites.items() if not site.reason}
        if not mapped:
            return "No site is moved: each map would be noise"
        name, site = max(mapped.items(), key=lambda item: item[1].apart)
        after = f"{digits(site.left)} expected after it"
        return f"{name}: {digits(site.apart)} from the common mean before its map, {after}"
    p_values = results.p_values if isinstance(results, MatchedImages) else together.p_values
    if not p_values:
        return ""
    if not bonferroni(list(p_values.values())) < ALPHA:
        return "no difference is found"
    if together.combined:
        differ = [name for name, p in p_values.items() if p * len(p_values) < ALPHA]
        return f"{listing(differ)}: one mean does not fit all releases"
    surest = min(p_values, key=p_values.__getitem__)
    pairs = grouped((row["term"], row) for row in records if row["class"] == surest).items()
    sizes = {term: _size_of(*rows) for term, rows in pairs if len(rows) == 2}
    term = max(sizes, key=lambda term: sizes[term][0], default="")
    size, words = sizes.get(term, (0.0, ""))
    return f"{surest}, {term}: {words}" if size > 1.0 else f"{surest} differs"


def _size_of(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[float, str]:
    """Return the difference of two values over its interval, and both in words; 0, "" of none."""
    if any(row[key] is None for row in (first, second) for key in ("value", "low", "high")):
        return 0.0, ""
    low, high = sorted((first, second), key=lambda row: float(row["value"]))
    half = math.hypot(low["high"] - low["value"], high["value"] - high["low"])
    said = [f"{signed(row['value'])} in {row['mean']}" for row in (first, second)]
    return (high["value"] - low["value"]) / max(half, 1e-300), listing(said)


def harmonised_verdict(sites: ReleaseComparison) -> Finding:
    """Say which sites are mapped, and which stay as they are.

    Parameters
    ----------
    sites : ReleaseComparison
        Releases of the sites, and their maps.

    Returns
    -------
    Finding
        Sentence at the head of the page; a warning if a site stays as it is.
    """
    maps: Harmonisation = sites.results
    stay = [name for name, site in maps.sites.items() if site.reason]
    mapped = {name: site for name, site in maps.sites.items() if not site.reason}
    farthest = max(mapped, key=lambda name: mapped[name].apart)
    text = say("sites", mapped=mapped, stay=stay, farthest=farthest)
    return Finding(text, warning=bool(stay))


def scales(sites: ReleaseComparison) -> list[dict[str, Any]]:
    """Return a row per site: its shift with its standard error, how far apart before and after.

    Parameters
    ----------
    sites : ReleaseComparison
        Releases of the sites, and their maps.
    """
    return [
        {
            "name": name,
            "size": f"{total:,} (exact)"
            if (total := sites.several.documents[place].settings.total)
            else size_together([rows[place] for rows in sites.several.classes.values()]),
            "site": site,
            "shift": f"{site.effect:.3g} ± {site.standard_error:.2g}",
        }
        for place, (name, site) in enumerate(sites.results.sites.items())
    ]


def remaining(sites: ReleaseComparison) -> dict[str, Any] | None:
    """Return expected areas under the ROC curve before and after, and the weights of classes.

    Parameters
    ----------
    sites : ReleaseComparison
        Releases of the sites, and their maps.
    """
    maps: Harmonisation = sites.results
    if not math.isfinite(maps.classes_before):
        return None
    distances = (maps.classes_before, maps.classes_after)
    before, after = (float(ndtr(distance / math.sqrt(2.0))) for distance in distances)
    weights = dict(zip(sites.several.classes, maps.weights, strict=True))
    return {"before": before, "after": after, "weights": weights}


def together_with(matched: MatchedImages) -> ReleaseComparison:
    """Return local images and the release that they are compared with as all pages have them.

    Parameters
    ----------
    matched : MatchedImages
        Local images against a release.
    """
    rows = {name: [match.row] for name, match in matched.classes.items()}
    release = matched.release
    document = DocumentSet((release,), (release.name,), rows, matched.left_out)
    return ReleaseComparison("match", document, matched)


def build_match(matched: MatchedImages, out: Path) -> dict[str, Path]:
    """Write ``OUT/match.html``, ``match.csv`` and the committed bytes, for their owner alone.

    Parameters
    ----------
    matched : MatchedImages
        Local images against a release.
    out : Path
        Folder that is written, for its owner alone.

    Returns
    -------
    dict of str to Path
        Paths of the page, ``page``, and of the table of images, ``images``.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    with owner_only(True):
        folder = make_folder(out)
        images = write_percentiles(matched, folder / "match.csv")
        page = write_together(together_with(matched), folder / "match.html")
    return {"page": page, "images": images}


def match_verdict(together: ReleaseComparison) -> Finding:
    """Say whether the local images differ from the release, or why that cannot be tested.

    Parameters
    ----------
    together : ReleaseComparison
        Release, and the local images that were compared with it.

    Returns
    -------
    Finding
        Sentences at the head of the page; a warning if the images differ, or classes are untested.
    """
    matched: MatchedImages = together.results
    p_values, missing = matched.p_values, matched.untested
    if not p_values:
        return untested(missing)
    results = {name: c.result for name, c in matched.classes.items() if c.result}
    many = [name for name, result in results.items() if result.many_outside]
    few = [name for name, result in results.items() if result.few_outside]
    text = say(
        "local",
        found=f"({p_in_words(matched.p_value)}, {_of_classes(p_values)})",
        differs=matched.differs,
        surest=min(p_values, key=p_values.__getitem__),
        many=many,
        few=few,
        missing=reasons(missing),
    )
    return Finding(text, warning=matched.differs or bool(missing or many))


def matched_classes(together: ReleaseComparison) -> list[dict[str, Any]]:
    """Return a row per class: sizes, p-value, how many images are outside and are expected to.

    Parameters
    ----------
    together : ReleaseComparison
        Release, and the local images that were compared with it.
    """
    return [
        {
            "name": name,
            "size": size_together([match.row]),
            "local": f"{len(match.local.places):,}",
            "tested": not match.untested,
            "result": match.result,
            "outside": outside_cells(match.result),
        }
        for name, match in together.results.classes.items()
    ]


def outside_cells(result: Match | None) -> tuple[str, str]:
    """Return how many records are outside, and how many are expected.

    Parameters
    ----------
    result : Match or None
        Test of the class.
    """
    if result is None or not result.n:
        return "–", "–"
    low, high = (100.0 * share for share in result.expected_range)
    count = np.count_nonzero(result.is_outside)
    share = f"{count:,} of {result.n:,} ({100.0 * result.outside:.2g} %)"
    return share, f"{100.0 * result.expected:.2g} % ({low:.2g} to {high:.2g})"


def farthest(together: ReleaseComparison) -> list[dict[str, Any]]:
    """Return a row per the images that are farthest away.

    Parameters
    ----------
    together : ReleaseComparison
        Release, and the local images that were compared with it.
    """
    names = ("class_name", "file", "percentile")
    images = together.results.images[:FARTHEST_IMAGES]
    return [dict(zip(names, image, strict=True), flagged=FLAGGED) for image in images]


def faults(together: ReleaseComparison) -> list[dict[str, Any]]:
    """Return a row per local file that cannot be used.

    Parameters
    ----------
    together : ReleaseComparison
        Release, and the local images that were compared with it.
    """
    return [fault._asdict() for fault in together.results.faults]


def population_mean(released: ClassEntry) -> Mean:
    """Return a mean before it was shrunk, with its error as that of a population.

    A band of it has the noise of the mean and the chance of a sample of n. A whisker, longer by the
    most that clipping may have moved the mean, holds the value of the population that the people
    of a release were drawn from (``publish/readings.py``). Nothing is shrunk, as means of several
    releases are not shrunk equally. Of a night it is the mean of all privacy units so far.

    Parameters
    ----------
    released : ClassEntry
        Entry of the class in a document.
    """
    if isinstance(released, NightClassPart):
        certainty = released.certainty
        if certainty is None or certainty.population is None:
            return Mean(released.place, None)
        error = certainty.population - certainty.bias
        return Mean(released.place, error, moves=clipping_moves(certainty.weighed))
    moments = released.noisy_moments
    point = released.space.exp(moments.base, moments.offset)
    if moments.moment is None:
        return Mean(point, None, moments.base)
    error = moments.noise + covariance(moments) / moments.n
    return Mean(point, error, moments.base, moves=clipping_moves([(1.0, moments)]))
