"""What a run is told, as frozen records read from TOML: every choice here is public.

A key that is not known is refused with the closest one that is, so a misspelt budget can never
fall back to a default.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.errors import ConfigError
from pipeline.plan import Plan
from pipeline.privacy import Budget, budget_from
from pipeline.toml import read_toml

Model = TypeVar("Model", bound=BaseModel)
Share = Annotated[float, Field(gt=0, lt=1)]
MAIN = Path(__file__).parent / "experiments" / "main.toml"
"""The experiment that `covdp run` runs when it is given none."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


class Record(BaseModel):
    """A frozen record that forbids unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SeriesConfig(Record):
    """One line of a figure: a mechanism with its plan, run at every budget."""

    series: str = Field(min_length=1, description="legend label")
    panel: str = Field("", description="panel of the figure; series of one panel are compared")
    definition: str | None = Field(None, description="in place of the experiment's")
    delta: float | None = Field(None, gt=0, lt=1, description="in place of the experiment's")
    repetitions: int | None = Field(None, ge=1, description="in place of the experiment's")
    measure: Literal["distance", "frobenius", "vech", "chord"] = Field(
        "distance", description="how the error is measured: in the manifold, or as stored"
    )
    analytic: bool = Field(True, description="exact (ε, δ) condition, or the classical formula")
    scale: Positive = Field(1.0, description="noise as a multiple of what the guarantee needs")
    aligned: bool = Field(True, description="outlines are rotated onto each other first")
    batch: int = Field(1, ge=1, description="draws of one timed call; timing only")
    mechanism: str = Field(description="a name of `covdp mechanisms`")
    sampler: Literal["exact", "chain"] = "exact"
    sensitivity: Literal["diameter", "radius"] = Field(
        "diameter", description="D/n of this project, or the papers' 2r/n"
    )
    footpoint: Literal["origin", "all", "subsample", "adaptive"] = Field(
        "origin",
        description="public origin, a private mean of all records or of a subsample, or adaptive",
    )
    footpoint_mechanism: str = "ewg"
    footpoint_share: Share = Field(0.1, description="share of the budget for the footpoint")
    subsample: Share = Field(0.05, description="fraction of the records in a subsample footpoint")
    burn_in: int = Field(10_000, ge=1, description="steps a chain discards; chains only")
    shares: tuple[float, ...] | None = Field(
        None, description="adaptive: survey, then shells and mean of each round; sum 1"
    )

    @property
    def plan(self) -> Plan:
        """The plan of the release, without what concerns the figure."""
        return Plan(**self.model_dump(include={field.name for field in fields(Plan)}))

    @model_validator(mode="after")
    def _plan_is_possible(self) -> Self:
        _ = self.plan  # its own checks
        return self


class SourceConfig(Record):
    """Records that are simulated: one class for each manifold, dimension and number of records.

    ball
        exp(origin, r·U^{1/d}·v): uniform direction v, radius r·U^{1/d}; a cap on the sphere.
    spectrum
        Eigenvalues uniform in [e^−r, e^r], Haar eigenvectors; in the ball of radius √k·r.
    wishart
        Wishart matrices over their degrees of freedom, drawn again outside the ball of radius r.
    outlines
        Outlines like a corpus callosum, drawn again outside the ball of radius r.
    """

    kind: Literal["ball", "spectrum", "wishart", "outlines"]
    dimensions: tuple[int, ...] = Field(min_length=1, description="d of the manifold")
    n: tuple[int, ...] = Field(min_length=1, description="records in a class")
    radius: Positive = Field(description="r, public")
    manifolds: tuple[str, ...] = Field((), description="the experiment's manifold by default")
    freedom: int = Field(5, ge=1, description="degrees of freedom; wishart only")
    smoothing: Share | None = Field(
        None,
        description="landmarks, as a share, in each local line of a smoothed picture; outlines",
    )


class FigureConfig(Record):
    """The layout of the paper's figure."""

    x: Literal["budget", "n", "dim", "k"] = Field("budget", description="k of SPD(k)")
    panels: tuple[Literal["class", "panel", "budget"], ...] = ("class",)
    band: Literal["se", "2se", "2sd"] = "se"
    value: Literal["error", "seconds"] = "error"


class PublishedConfig(Record):
    """One number that the paper prints, and where ours stands."""

    quantity: str
    value: float
    unit: str = ""
    column: Literal["error", "seconds", "n", "radius", "acceptance"] = "error"
    series: str | None = None
    label: int | None = None
    statistic: Literal["mean", "median", "min", "max"] = "mean"


class ClaimConfig(Record):
    """One thing the paper says of its figure, in its own words as far as a sentence allows.

    It holds for a class and budget when mean(left)·`factor` < mean(right), or, given `within`, when
    neither mean is `within` times the other; for the column ``ratio``, which has no series, where
    the largest record of a class fills `factor` of its bound.
    """

    says: str = Field(min_length=1)
    place: str = Field(min_length=1, description="where the paper says it")
    left: str = ""
    right: str = ""
    factor: Positive = 1.0
    within: float | None = Field(None, gt=1, description="in place of `factor`")
    ours: str = Field("", description="one sentence: what of this reading is not the paper's")
    why: Literal["", "clock", "footpoint", "grid", "law", "limit", "scale"] = Field(
        "", description="why our rows differ, where they do; see pipeline.report.reasons"
    )
    beside: str = Field("", description="series of ours that the reason compares with")
    column: Literal["error", "seconds", "ratio"] = "error"
    above: float = Field(0.0, description="least budget it is said of")
    below: float = Field(1e9, description="largest budget it is said of")
    labels: tuple[int, ...] | None = Field(None, description="classes it is said of; all if none")

    @model_validator(mode="after")
    def _own_bars_are_said(self) -> Self:
        if self.within is not None and (self.factor != 1.0 or not self.ours):
            raise ConfigError(
                "within stands in place of factor, and ours must say where it is from"
            )
        return self


class TargetConfig(Record):
    """A dataset an experiment runs on, and what is different there."""

    name: str
    beyond: bool = Field(False, description="not in the paper")
    descriptor: str | None = None
    classes: tuple[int, ...] | None = None
    splits: tuple[Literal["train", "val", "test"], ...] | None = None


class CompositionConfig(Record):
    """A table of total budgets: what m queries cost together."""

    queries: tuple[int, ...] = Field(min_length=1)
    definitions: tuple[str, ...] = Field(min_length=1)
    degree: float = Field(4.0, ge=1, description="N of the generalized Gaussian")


class ExperimentConfig(Record):
    """One experiment on one dataset: classes x series x budgets x repetitions."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    paper: str = Field("", description="paper, figure or table that is reproduced")
    open: tuple[str, ...] = Field((), description="what the paper leaves open, and our choice")
    kind: Literal["error", "timing", "composition"] = "error"
    source: SourceConfig | None = Field(None, description="simulated records, in place of images")
    composition: CompositionConfig | None = None
    figure: FigureConfig = FigureConfig()
    published: tuple[PublishedConfig, ...] = ()
    claims: tuple[ClaimConfig, ...] = ()
    dataset: str
    beyond: bool = Field(False, description="whether the dataset is not in the paper")
    size: int | None = Field(None, description="side of the images; the dataset's least by default")
    splits: tuple[Literal["train", "val", "test"], ...] | None = None
    classes: tuple[int, ...] | None = Field(None, description="labels to run; all by default")
    descriptor: str = "oct5"
    eta: Positive = 1e-6
    manifold: str = "spd-log-euclidean"
    definition: str = "gdp"
    budgets: tuple[Positive, ...] = Field(min_length=1)
    delta: float | None = Field(None, gt=0, lt=1)
    alpha: float | None = Field(None, gt=1)
    baseline: str = Field("", description="series of the published setting, which others beat")
    repetitions: int = Field(100, ge=2)
    seed: int = Field(ge=0, lt=2**63)
    mechanisms: tuple[SeriesConfig, ...] = Field(min_length=1)

    @property
    def run_name(self) -> str:
        """Name of the run of this experiment on this dataset, and of its files."""
        return f"{self.name}-{Path(self.dataset).stem}"

    def budget(self, value: float, series: SeriesConfig | None = None) -> Budget:
        """Return the budget of one row, in the definition of its series or of the experiment."""
        return budget_from(
            (series and series.definition) or self.definition,
            value,
            delta=(series and series.delta) or self.delta,
            alpha=self.alpha,
        )

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for series in self.mechanisms:
            for value in self.budgets:
                self.budget(value, series)
        labels = [series.series for series in self.mechanisms]
        if len(set(labels)) < len(labels):
            raise ConfigError(f"series labels must differ from each other, found {labels}")
        return self


def known(kind: str, name: str, registry: Iterable[str], see: str) -> None:
    """Raise `ConfigError` with the closest known name when `name` is not in `registry`."""
    names = list(registry)
    if name not in names:
        raise ConfigError(f"unknown {kind} {name!r}{_closest(name, names)}; {see} lists them")


def load_config(
    path: Path | None,
    *,
    dataset: str | None = None,
    descriptor: str | None = None,
    seed: int | None = None,
) -> ExperimentConfig:
    """Read and check an experiment's TOML file; the built-in main job when `path` is None.

    Raises
    ------
    ConfigError
        One line with the file, the key, the value and the way out.
    """
    source = path or MAIN
    fields = read_toml(source, ConfigError, "config")
    given = {"dataset": dataset, "descriptor": descriptor, "seed": seed}
    fields |= {key: value for key, value in given.items() if value is not None}
    return parse(ExperimentConfig, fields, str(source))


def parse(model: type[Model], fields: Mapping[str, Any], source: str) -> Model:
    """Validate `fields` as `model`; the first fault becomes a `ConfigError` naming `source`."""
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        found = error.errors(include_url=False)
    first = min(found, key=lambda fault: fault["type"] != "extra_forbidden")  # the likely slip
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        raise ConfigError(f"{source}: unknown key {where!r}{_closest_field(model, first['loc'])}")
    message = first["msg"].removeprefix("Value error, ")
    value = f", found {first['input']!r}" if where and first["type"] != "missing" else ""
    raise ConfigError(": ".join(part for part in (source, where, message) if part) + value)


def _closest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _closest_field(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """Suggest a field name for the last part of `location`, in `model` or in a nested record."""
    nested = NESTED.get(str(location[0]), model) if len(location) > 1 else model
    return _closest(str(location[-1]), list(nested.model_fields))


NESTED: dict[str, type[Record]] = {
    "mechanisms": SeriesConfig,
    "source": SourceConfig,
    "figure": FigureConfig,
    "published": PublishedConfig,
    "claims": ClaimConfig,
    "composition": CompositionConfig,
    "datasets": TargetConfig,
}
"""The records inside an experiment, by key."""
