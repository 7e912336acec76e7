"""What is printed, or claimed, of the results of an experiment: beside its settings, in one file.

`pipeline.report` judges it by the rows.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.errors import ConfigError
from pipeline.toml import Record

Factor = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


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
    the largest record of a class fills `factor` of its bound; for ``memory`` no pass takes more MB.
    Of regions, ``coverage`` is at least `factor` at this level, ``held`` that of regions of 95 %,
    ``radius`` at most that many times the error, ``price`` the same, which is measured and shown
    and no promise, and ``offered`` the share that is offered, none for 0. Of tests, ``false`` says
    that p-values of `factor` or less are no more frequent than that, ``alarms`` that those of 0.05
    or less are, ``power`` that p-values of 0.05 or less are at
    least so frequent. Of classifiers, ``auc`` is at least `factor`, ``behind`` at most that much
    below the one of the series `right`, by the same releases; of sites ``told`` says that at most
    `factor` of the images are. `left` then is the series it is said
    of, with all that continue its name after a comma; all series if empty.
    """

    says: str = Field(min_length=1)
    place: str = Field(min_length=1, description="where the paper says it")
    left: str = ""
    right: str = ""
    factor: Factor = 1.0
    within: float | None = Field(None, gt=1, description="in place of `factor`")
    ours: str = Field("", description="one sentence: what of this reading is not the paper's")
    why: Literal["", "clock", "footpoint", "grid", "law", "limit", "parts", "scale"] = Field(
        "", description="why our rows differ, where they do; see pipeline.report.reasons"
    )
    beside: str = Field("", description="series of ours that the reason compares with")
    column: Literal[
        "error",
        "seconds",
        "ratio",
        "memory",
        "coverage",
        "held",
        "alarms",
        "radius",
        "price",
        "offered",
        "false",
        "power",
        "auc",
        "behind",
        "told",
    ] = "error"
    above: float = Field(0.0, description="least budget it is said of")
    below: float = Field(1e9, description="largest budget it is said of")
    least: float = Field(0.0, description="least n·budget it is said of; of released values")
    most: float = Field(1e18, description="largest n·budget it is said of; of released values")
    labels: tuple[int, ...] | None = Field(None, description="classes it is said of; all if none")
    nights: tuple[int, ...] | None = Field(None, description="nights it is said of; all if none")

    @model_validator(mode="after")
    def _own_bars_are_said(self) -> Self:
        if self.within is not None and (self.factor != 1.0 or not self.ours):
            raise ConfigError(
                "within stands in place of factor, and ours must say where it is from"
            )
        if self.factor == 0.0 and self.column != "offered":
            raise ConfigError("factor must be above 0, but for the column offered, found 0")
        return self
