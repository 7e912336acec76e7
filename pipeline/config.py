"""Settings of a run, as frozen records read from TOML: every choice here is public.

What a paper printed of the results of an experiment, or what is claimed of them, stands beside its
settings, in one file. The add-on `covdp.addons.papers` judges it by the rows.
"""

import math
from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from covdp.errors import ConfigError, require_known
from covdp.mean import Plan, SinglePlan, shared_plan
from covdp.privacy import Budget, budget_from
from covdp.toml import Record

Factor = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class PublishedConfig(Record):
    """One number that the paper prints, and the place of ours.

    Attributes
    ----------
    quantity : str
        Words for the quantity.
    value : float
        Number as it is printed.
    unit : str
        Unit of the number.
    column : {"error", "seconds", "n", "radius", "acceptance"}
        Column of our results that is compared with it.
    series : str, optional
        Series of our results; all of them if none.
    label : int, optional
        Label of the class; all classes if none.
    statistic : {"mean", "median", "min", "max"}
        Statistic of our results.
    """

    quantity: str
    value: float
    unit: str = ""
    column: Literal["error", "seconds", "n", "radius", "acceptance"] = "error"
    series: str | None = None
    label: int | None = None
    statistic: Literal["mean", "median", "min", "max"] = "mean"


CLAIMED = (
    *("error", "squared", "seconds", "ratio", "coverage", "held", "alarms", "radius"),
    *("price", "offered", "false", "power", "flags", "auc", "behind", "balanced", "tight"),
)
"""Quantities that a claim may be of, see ``addons/papers/verdicts.py``."""


class ReadingConfig(Record):
    """One reading of a statement that its paper leaves open; what is left out is as stated.

    Attributes
    ----------
    name : str
        Clause that says what the reading takes.
    left : str, optional
        Series in place of the statement's `left`.
    right : str, optional
        Series in place of the statement's `right`.
    column : str, optional
        Column in place of the statement's.
    factor : float, optional
        Factor in place of the statement's.
    """

    name: str = Field(min_length=1)
    left: str | None = None
    right: str | None = None
    column: str | None = None
    factor: Factor | None = None


class ClaimConfig(Record):
    """One thing the paper says of its figure, in its own words as far as a sentence allows.

    It holds for a class and budget when mean(left)·`factor` < mean(right), of errors, of squared
    errors or of times. If the statement is one of a `trend`, mean(left)/mean(right) must grow from
    each of the classes to the next. For the column ``ratio``, which has no series, the largest
    record of a class must fill `factor` of its bound; for ``tight`` the least GDP of the queries of
    the series `left` must be their Rao budget.
    Of regions, ``coverage`` is at least `factor` at this level, ``held`` that of regions of 95 %,
    ``radius`` at most that many times the error, ``price`` the same, which is measured and shown
    and no promise, and ``offered`` the share that is available, none for 0. Of tests, ``false``
    says that p-values of `factor` or less are no more frequent than that, ``alarms`` that those of
    0.05 or less are, ``power`` that p-values of 0.05 or less are at least so frequent. Of local
    records, ``flags`` says that the share outside is at least so often in the range stated. Of
    classifiers, ``auc`` is at least `factor`, ``behind`` at most that much below the one of the
    series `right`, by the same releases. Of sites, ``balanced`` says that the site of an image is
    found in at most the share `factor`. `left` then is the series it is stated of, with all that
    continue its name after a comma; all series if empty.

    Attributes
    ----------
    says : str
        Statement, in a sentence.
    place : str
        Place in the paper that says it.
    left : str
        Series that the statement is about.
    right : str
        Series that it is compared with.
    factor : float
        Factor, or level, of the statement.
    no_number : bool
        True if the paper calls both similar and gives no number that decides: how much they differ
        is then stated, and no verdict.
    trend : bool
        True if the ratio of both is to grow from class to class.
    readings : tuple of ReadingConfig
        Readings among which the paper leaves the choice; the statement holds if all of them do.
    ours : str
        One sentence: what of this reading is not the paper's.
    why : str
        Reason why our rows differ, stated where they do.
    column : str
        Quantity that the statement is of, one of `CLAIMED`.
    above : float
        Least budget of the statement.
    below : float
        Largest budget of the statement.
    least : float
        Least n·budget of the statement; of released values.
    most : float
        Largest n·budget of the statement; of released values.
    labels : tuple of int, optional
        Classes of the statement; all if none.
    manifolds : tuple of str, optional
        Manifolds of the statement; all if none.
    nights : tuple of int, optional
        Nights of the statement; all if none.
    """

    says: str = Field(min_length=1)
    place: str = Field(min_length=1)
    left: str = ""
    right: str = ""
    factor: Factor = 1.0
    no_number: bool = False
    trend: bool = False
    readings: tuple[ReadingConfig, ...] = ()
    ours: str = ""
    why: str = ""
    column: str = "error"
    above: float = 0.0
    below: float = 1e9
    least: float = 0.0
    most: float = 1e18
    labels: tuple[int, ...] | None = None
    manifolds: tuple[str, ...] | None = None
    nights: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _bars_are_said(self) -> Self:
        require_known("column", self.column, CLAIMED, f"a claim has {', '.join(CLAIMED)}")
        for item in self.readings:
            require_known("column", item.column or self.column, CLAIMED)
        if (self.no_number or self.trend) and self.factor != 1.0:
            raise ConfigError(
                "a statement without a number, or of a trend, has no factor, found "
                f"{self.factor:g}; leave one of them out"
            )
        if len(self.readings) == 1:
            raise ConfigError("readings must be two or more; state one alone in the claim itself")
        if self.factor == 0.0 and self.column != "offered":
            raise ConfigError("factor must be above 0, but for the column `offered`, found 0")
        return self


Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


class SeriesConfig(Record):
    """One line of a figure: a mechanism with its plan, run at every budget.

    Settings that not all kinds of experiments have stand in the kinds, as further fields.

    Attributes
    ----------
    series : str
        Legend label.
    panel : str
        Panel of the figure; series of one panel are compared.
    repetitions : int, optional
        In place of the experiment's.
    analytic : bool
        True for noise by the exact (ε, δ) condition, false for the classical formula.
    scale : float
        Noise as a multiple of what the guarantee needs.
    mechanism : str
        A name of `covdp mechanisms`.
    sampler : {"exact", "chain"}
        Exact draws of the noise, or a Markov chain.
    sensitivity : {"diameter", "radius"}
        D/n of this project, or the papers' 2r/n.
    footpoint : {"origin", "all", "subsample", "adaptive", "at"}
        The public origin, a private mean of all records or of a subsample, or adaptive; ``at`` a
        distance from the true mean, which is not private.
    footpoint_mechanism : str
        Mechanism that draws a private footpoint, a name of `covdp mechanisms`.
    footpoint_share : float
        Share of the budget for the footpoint.
    subsample : float
        Fraction of the records in a subsample footpoint.
    burn_in : int
        Steps a chain discards; chains only.
    start : float, optional
        Distance from its centre at which a chain starts, in √d; one proposal away by default.
        Flat manifolds only.
    shares : tuple of float, optional
        Shares of an adaptive mean: mean, shells, mean, shells, mean; sum 1. By n·μ when left out.
    """

    series: str = Field(min_length=1)
    panel: str = ""
    repetitions: int | None = Field(None, ge=1)
    analytic: bool = True
    scale: Positive = 1.0
    mechanism: str
    sampler: Literal["exact", "chain"] = "exact"
    sensitivity: Literal["diameter", "radius"] = "diameter"
    footpoint: Literal["origin", "all", "subsample", "adaptive", "at"] = "origin"
    footpoint_mechanism: str = "ewg"
    footpoint_share: Share = 0.1
    subsample: Share = 0.05
    burn_in: int = Field(10_000, ge=1)
    start: Positive | None = None
    shares: tuple[float, ...] | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the release, without what concerns the figure."""
        several = shared_plan(self.mechanism, self.sampler, self.footpoint, self.shares)
        if several is not None:
            return several
        own = {field.name for field in fields(SinglePlan)} & set(type(self).model_fields)
        return SinglePlan(**self.model_dump(include=own))

    @model_validator(mode="after")
    def _plan_is_possible(self) -> Self:
        _ = self.plan  # its own checks
        return self


class DefinedSeries(SeriesConfig):
    """A series that may have a guarantee of its own.

    Attributes
    ----------
    definition : str, optional
        In place of the experiment's.
    delta : float, optional
        In place of the experiment's.
    """

    definition: str | None = None
    delta: float | None = Field(None, gt=0, lt=1)


class PersonSeries(DefinedSeries):
    """A series of records that may be persons.

    Attributes
    ----------
    records : str
        Unit of a record where persons are known: ``persons``, ``one image`` (of each), ``images in
        groups`` (noise for all of the person with most), or ``images``, which protects no person.
    """

    records: str = "persons"


class SampledSeries(SeriesConfig):
    """A series of records that are drawn from a class.

    Attributes
    ----------
    n : int, optional
        Records drawn, all of the class by default.
    """

    n: Count | None = None


class SourceConfig(Record):
    """Records that are simulated: one class for each manifold, dimension and number of records.

    Attributes
    ----------
    kind : str
        Which records: ``ball``, ``spectrum``, ``wishart``, ``outlines`` or ``persons``.
    dimensions : tuple of int
        Dimension of the manifold.
    n : tuple of int
        Records in a class.
    radius : float
        Radius of the domain, public.
    manifolds : tuple of str
        Manifolds; the experiment's by default.
    freedom : int
        Degrees of freedom; wishart only.
    sizes : tuple of int
        Images of a person, one number after another, round and round; persons.
    between : float
        Root mean square distance of persons from their mean; persons.
    within : float
        Root mean square distance of images from their person; persons.
    smoothing : float, optional
        Landmarks, as a share, in each local straight line of a smoothed picture; outlines.
    """

    kind: str
    dimensions: tuple[int, ...] = Field(min_length=1)
    n: tuple[int, ...] = Field(min_length=1)
    radius: Positive
    manifolds: tuple[str, ...] = ()
    freedom: int = Field(5, ge=1)
    sizes: tuple[Count, ...] = ()
    between: Positive = 1.0
    within: Positive = 1.0
    smoothing: Share | None = None


class FigureConfig(Record):
    """The layout of a figure.

    Attributes
    ----------
    x : {"budget", "n", "dim", "k", "night", "footpoint_share", "footpoint_distance"}
        Quantity on the x axis; ``k`` is that of SPD(k). Along a footpoint series are one curve
        whose names differ after the last comma.
    panels : tuple of {"class", "panel", "budget"}
        Keys that tell panels apart.
    value : {"error", "seconds", "rejected", "auc"}
        Column on the y axis.
    dashes : {"expected_error", "error_bound"}
        Column that is drawn thin and dashed.
    series : tuple of str
        Curves that are drawn; all if none.
    """

    x: Literal["budget", "n", "dim", "k", "night", "footpoint_share", "footpoint_distance"] = (
        "budget"
    )
    panels: tuple[Literal["class", "panel", "budget"], ...] = ("class",)
    value: Literal["error", "seconds", "rejected", "auc"] = "error"
    dashes: Literal["expected_error", "error_bound"] = "expected_error"
    series: tuple[str, ...] = ()


class TargetConfig(Record):
    """A dataset an experiment runs on, and what is different there.

    Attributes
    ----------
    name : str
        Name of the dataset, or path of its card.
    beyond : bool
        True if it is not in the paper; of our own claims, if no number was set on it.
    variant : str
        Word that tells apart two runs on one dataset.
    manifold : str, optional
        Manifold in place of the file's.
    descriptor : str, optional
        Descriptor in place of the file's.
    classes : tuple of int, optional
        Labels in place of the file's.
    splits : tuple of {"train", "val", "test"}, optional
        Splits in place of the file's.
    source : SourceConfig, optional
        Records simulated here, in place of images.
    claims : tuple of ClaimConfig, optional
        Statements in place of the file's.
    published : tuple of PublishedConfig, optional
        Printed numbers in place of the file's.
    """

    name: str
    beyond: bool = False
    variant: str = ""
    manifold: str | None = None
    descriptor: str | None = None
    classes: tuple[int, ...] | None = None
    splits: tuple[Literal["train", "val", "test"], ...] | None = None
    source: SourceConfig | None = None
    claims: tuple[ClaimConfig, ...] | None = None
    published: tuple[PublishedConfig, ...] | None = None


class TargetsConfig(Record):
    """The datasets of one file; each makes a run of its own.

    Attributes
    ----------
    datasets : tuple of TargetConfig
        Datasets, in the order of their runs.
    """

    datasets: tuple[TargetConfig, ...] = Field(min_length=1)


def curve_name(series: str) -> str:
    """Return the curve of a series along a footpoint: its name up to the last comma.

    Parameters
    ----------
    series : str
        Name of the series.
    """
    return series.rpartition(", ")[0] or series


MOST_SERIES = 1000
"""Series that one may stand for; ours stand for 36. A file has room for tables of billions."""


def _varied(series: Any) -> Iterator[Any]:
    """Yield a series once for each choice of a row of every table of its `vary`."""
    if not isinstance(series, dict) or "vary" not in series:
        yield series
        return
    own = {key: value for key, value in series.items() if key != "vary"}
    tables = series["vary"] if isinstance(series["vary"], list) else [series["vary"]]
    axes = [_rows(table) for table in tables]
    if (many := math.prod(map(len, axes))) > MOST_SERIES:
        raise ConfigError(
            f"a series may stand for at most {MOST_SERIES:,}, found [[mechanisms.vary]] with "
            f"{many:,} choices; leave rows or tables out"
        )
    for rows in product(*axes):
        varied = own | {key: value for _, keys in rows for key, value in keys.items()}
        if "series" in own:
            varied["series"] = ", ".join([str(own["series"]), *(label for label, _ in rows)])
        yield varied


def series_keys(series: Any) -> set[str]:
    """Return the keys that a series of a file has, in the rows of its `vary` too.

    Parameters
    ----------
    series : object
        Table of the series, as TOML has it.
    """
    if not isinstance(series, dict):
        return set()
    tables = series.get("vary", ())
    rows = (
        row
        for table in (tables if isinstance(tables, list) else [tables])
        for row in (table.values() if isinstance(table, dict) else ())
    )
    return {*series, *(key for row in rows if isinstance(row, dict) for key in row)} - {"vary"}


def _rows(table: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the labels and keys of a table of `vary`."""
    rows = list(table.items()) if isinstance(table, dict) else []
    if not rows or not all(isinstance(keys, dict) for _, keys in rows):
        raise ConfigError(
            "in [[mechanisms.vary]] each row must be a label and keys of the series, as "
            f'"1 %" = {{ rare_share = 0.01 }}, found {table!r}'
        )
    return rows


class ExperimentTexts(Record):
    """Texts, figures and statements of an experiment: no number depends on them.

    Attributes
    ----------
    title : str
        Title of the experiment.
    paper : str
        Paper, figure or table that is reproduced.
    minutes : float, optional
        Minutes that a whole run took, on two cores.
    open : tuple of str
        Sentences on choices that the paper leaves open, and ours.
    figure : FigureConfig
        Axes of its figure.
    figures : tuple of FigureConfig
        Further figures.
    published : tuple of PublishedConfig
        Numbers that the paper prints.
    claims : tuple of ClaimConfig
        Statements that its rows are to prove.
    beyond : bool
        True if the dataset is not in the paper, or of our own claims held out.
    baseline : str
        Series of the published setting, which others beat.
    """

    title: str
    paper: str = ""
    minutes: Positive | None = Field(None, exclude=True)
    open: tuple[str, ...] = ()
    figure: FigureConfig = FigureConfig()
    figures: tuple[FigureConfig, ...] = ()
    published: tuple[PublishedConfig, ...] = ()
    claims: tuple[ClaimConfig, ...] = ()
    beyond: bool = False
    baseline: str = ""


class ExperimentConfig(ExperimentTexts):
    """One experiment on one dataset: classes x series x budgets x repetitions.

    A kind of experiment that has settings of its own, or series with some, extends it
    (`covdp.experiments.driver.ExperimentKind`).

    Attributes
    ----------
    name : str
        Name of the experiment, and of its folders: small letters, digits and hyphens.
    kind : str
        A row of covdp.experiments.kinds.
    source : SourceConfig, optional
        Simulated records, in place of images.
    variant : str
        Word that tells apart two runs on one dataset; small letters, digits and hyphens.
    size : int, optional
        Side of the images, in pixels; the dataset's least by default.
    splits : tuple of {"train", "val", "test"}, optional
        Splits that images are taken of; all by default.
    classes : tuple of int, optional
        Labels to run; all by default.
    descriptor : str
        Name of the descriptor.
    eta : float
        Number η that is added to the diagonal of a descriptor.
    manifold : str
        Name of the manifold.
    definition : str
        Name of the definition of privacy.
    budgets : tuple of float
        Not empty.
    mechanisms : tuple of SeriesConfig
        Series; not empty. In a file a series may have tables ``vary``, whose rows have a label and
        keys: it then stands for a series of every choice of a row of each table, and labels follow
        its own.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    kind: str = "error"
    source: SourceConfig | None = None
    dataset: str
    variant: str = Field("", pattern=r"^([a-z0-9][a-z0-9-]*)?$")
    size: int | None = None
    splits: tuple[Literal["train", "val", "test"], ...] | None = None
    classes: tuple[int, ...] | None = None
    descriptor: str = "oct5"
    eta: Positive = 1e-6
    manifold: str = "spd-log-euclidean"
    definition: str = "gdp"
    budgets: tuple[Positive, ...] = ()
    delta: float | None = Field(None, gt=0, lt=1)
    alpha: float | None = Field(None, gt=1)
    repetitions: int = Field(100, ge=2)
    seed: int = Field(ge=0, lt=2**63)
    mechanisms: tuple[SeriesConfig, ...] = ()
    _words: tuple[str, ...] = PrivateAttr(())

    @property
    def words(self) -> tuple[str, ...]:
        """Words after `covdp` that load this again, but for the dataset; () if not known."""
        return self._words

    def loaded_by(self, *words: str) -> Self:
        """Return this config with the `words` that loaded it.

        Parameters
        ----------
        *words : str
            Words after `covdp` that load it again.
        """
        copy = self.model_copy()
        copy._words = words
        return copy

    @property
    def dataset_name(self) -> str:
        """Name of the dataset: that of its card, wherever the card is."""
        return Path(self.dataset).stem

    @property
    def run_name(self) -> str:
        """Name of the run of this experiment on this dataset, and of its files."""
        return "-".join(filter(None, (self.name, self.dataset_name, self.variant)))

    @property
    def on_images(self) -> bool:
        """True if the experiment runs on images, not on simulated records."""
        return self.source is None

    @property
    def simulated(self) -> tuple[tuple[str, int, int], ...]:
        """Manifold, dimension and number of records of each simulated class, by label."""
        source = self.source
        return tuple(product(self.manifolds, source.dimensions, source.n)) if source else ()

    @property
    def manifolds(self) -> tuple[str, ...]:
        """The manifolds that the experiment runs on."""
        return (self.source and self.source.manifolds) or (self.manifold,)

    @property
    def meant(self) -> Self:
        """Itself, with no statement but those about its manifolds, of the classes that are there.

        Of simulated records every class is on a manifold.
        """
        own = dict(enumerate(name for name, _, _ in self.simulated))
        claims = []
        for claim in self.claims:
            there = [x for x, name in own.items() if name in (claim.manifolds or self.manifolds)]
            if claim.manifolds is None or (not own and self.manifold in claim.manifolds):
                claims.append(claim)
            elif labels := tuple(x for x in there if x in (claim.labels or own)):
                claims.append(claim.model_copy(update={"labels": labels}))
        return self.model_copy(update={"claims": tuple(claims)})

    def definition_of(self, series: SeriesConfig) -> str:
        """Return the definition of privacy of a series: its own, or that of the experiment.

        Parameters
        ----------
        series : SeriesConfig
            Series of the experiment.
        """
        own = series.definition if isinstance(series, DefinedSeries) else None
        return own or self.definition

    def budget(self, value: float, series: SeriesConfig | None = None) -> Budget:
        """Return the budget of one row, in the definition of its series or of the experiment.

        Parameters
        ----------
        value : float
            Parameter of the budget.
        series : SeriesConfig, optional
            Series, which may have a definition and a δ of its own.
        """
        definition = self.definition if series is None else self.definition_of(series)
        delta = series.delta if isinstance(series, DefinedSeries) else None
        return budget_from(definition, value, delta=delta or self.delta, alpha=self.alpha)

    @field_validator("mechanisms", mode="before")
    @classmethod
    def _vary(cls, mechanisms: Any) -> Any:
        if not isinstance(mechanisms, list):
            return mechanisms
        return [series for each in mechanisms for series in _varied(each)]

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for series in self.mechanisms:
            for value in self.budgets:
                self.budget(value, series)
        labels = [series.series for series in self.mechanisms]
        for name, values in (("series labels", labels), ("budgets", self.budgets)):
            if len(set(values)) < len(values):
                raise ConfigError(f"{name} must differ from each other, found {list(values)}")
        require_known("baseline", self.baseline, ["", *labels], f"series are {', '.join(labels)}")
        curves = list(dict.fromkeys(x for name in labels for x in (name, curve_name(name))))
        for figure in (self.figure, *self.figures):
            for name in figure.series:
                require_known("curve", name, curves, f"curves are {', '.join(curves)}")
        if not (self.budgets and self.mechanisms):
            raise ConfigError("an experiment needs budgets and [[mechanisms]]")
        return self
