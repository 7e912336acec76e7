"""The document of a night: its models, which make it, read it, and check those of others.

It is a document as that of a release (`covdp.schema`), which finds these models by the fields that
a night alone has. What a night released of a class stands in it as the records that hold it
(`OpeningRelease`, `Epoch`).

**The document of a night**, of a config with a table ``[stream]``, is that of a release and holds
besides all that the night made known, so that the documents of nights 1 to t, in order, say all
that is ever stated of them (``transcript.py``):

``settings``         as of a release; ``settings.stream`` has ``horizon``, ``opening``, ``follows``
``night``            1, 2, …; ``settings.run_key`` is its date
``horizon``          the most nights there will be
``coefficient_norm`` ‖c‖ of the horizon: how far all nights together move with one privacy unit
``axes``             rows A, (d, d), in which the variances of windows are stated
``centre``           around which the stream counts, (d,); with other axes or another centre than
                     its first night's a stream does not go on
``statement``        pairs of title and text; ``account`` as of a release
``classes``          for each class what follows

``n_tonight``, ``n_so_far``     privacy units that entered this night, and up to it; ``n`` is the
latter.
                                Null where labels are secret: then ``n`` is counted with noise of
                                ``n_sd``, ``count`` is what was released for it, ``n_tonight`` of
                                the document and ``settings.total`` are of all classes together
``sigma``                       σ of the noise of each ``w``, the same every night
``w``, ``moment``, ``shells``   weighted sums of all nights of the epoch, noised; null until the
                                night after the opening
``opened``                      on the night of the opening: its mean (``offset``, in the chart),
                                what it ``observed``, and the noise of its shells
``epoch``                       on its first night: ``first``, ``centre``, ``radius``
``costs``                       of each draw of noise what it is for, Δ, σ and the certified ρ
``point``, ``predicted_error``  the mean of all privacy units so far; null before the opening, and
                                ``no_point`` says why
``certainty``                   what regions and tests read of a class: ``offered``, ``clipping``,
                                and the covariance of the error of ``point`` against the mean of all
                                privacy units (``sample``) and of the ``population``; its ``parts``,
                                the opening and the epochs, with what each says of its own privacy
                                units
``windows``                     of 1, 7, 30 and 90 nights: ``first``, ``last``, ``n``, ``point``,
                                ``offset``, ``variances`` v; the covariance of the noise of
                                ``offset`` is Aᵀ·diag(v)·A, exactly; where labels are secret it is
                                ``covariance``, of which v is the diagonal along the axes
``before``, ``joined``          of a stream that follows another: the mean of those before it (on
                                night 1), and of all together
"""

import math
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Field

from covdp import arrays
from covdp.addons.nights.stream import (
    Epoch,
    OpeningRelease,
    StreamMechanism,
    StreamPlan,
    later_openings,
)
from covdp.addons.nights.stream.pool import pooled_clipping
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import MANIFOLDS, Manifold, Point, chart_of
from covdp.inference.released import NOISY, region_refusal
from covdp.mean import NoisyMoments
from covdp.mean.noisy_moments import WeighedParts
from covdp.privacy import budget_from
from covdp.privacy.rounding import two_digits
from covdp.schema import (
    AccountPart,
    Basis,
    Coordinates,
    Count,
    Document,
    Flag,
    Label,
    Matrix,
    Name,
    NamedPart,
    Numbers,
    Refusal,
    Sentence,
    SettingsPart,
    Size,
    Triangle,
    Whole,
    manifold_named,
    point_at,
)


class EstimatePart(BaseModel):
    """A mean of all records of some nights; its point is the matrix, all else in the chart."""

    n: Label
    point: Matrix
    coordinates: Coordinates
    covariance: Basis
    spread: Basis


class MomentsPart(BaseModel):
    """Statement of the opening of a stream, or of an epoch, on its own records."""

    first: Count = Field(description="its first night; the opening has all nights up to it")
    share: Size = Field(description="its weight in the mean of all records so far")
    observed: NoisyMoments


class CertaintyPart(BaseModel):
    """Upper triangles of covariances for regions and tests, and whether a region is available."""

    manifold: Name
    offered: Flag
    clipping: Size
    size: Count | None = Field(
        None, description="where labels are secret, the number that `population` is divided by"
    )
    sample: Triangle
    population: Triangle | None = Field(description="null where no second moment was released")
    parts: list[MomentsPart] = Field(description="what the mean is made of, the opening first")
    corrected: Flag = Field(
        True,
        description="whether what was cut off was added to the mean; in windows it is not",
    )

    @property
    def added(self) -> FloatArray:
        """Correction that was added to the parts of the mean, or is missing in it, (d,)."""
        moved = [share * (part.offset - part.clipped_offset) for share, part in self.weighed]
        return np.asarray(np.sum(moved, axis=0))

    @property
    def weighed(self) -> WeighedParts:
        """The share of each part in the mean, and what it released."""
        return [(part.share, part.observed) for part in self.parts]

    @property
    def bias(self) -> FloatArray:
        """Covariance of the bias of clipping, a part of `sample`, (d, d)."""
        return pooled_clipping(self.weighed)

    @property
    def noise(self) -> FloatArray:
        """Noise covariance: `sample` minus `bias`, (d, d)."""
        return np.asarray(self.sample - self.bias)

    def single(self, n: int) -> FloatArray | None:
        """Return the covariance of single records, (d, d), of the mean of n; None if not known.

        Parameters
        ----------
        n : int
            Number of records of the mean.
        """
        return None if self.population is None else n * (self.population - self.sample)


class WindowPart(BaseModel):
    """The mean of the records of the last nights; `variances` of its noise, along the axes."""

    nights: Count
    first: Count
    last: Count
    n: Label
    n_sd: Size = Field(0.0, description="standard deviation of its noise; 0 where n is public")
    point: Matrix
    coordinates: Coordinates
    variances: Numbers
    covariance: Triangle | None = Field(
        None,
        description="where labels are secret, of its noise in all coordinates: upper triangle, row "
        "by row; that of the counts is not along the axes",
    )

    def noise(self, axes: FloatArray) -> FloatArray:
        """Return the covariance of its noise, (d, d).

        Parameters
        ----------
        axes : array, shape (d, d)
            Axes of its night.
        """
        stated = self.covariance
        return np.asarray((axes.T * self.variances) @ axes) if stated is None else stated


class StreamEntry(BaseModel):
    """Content of a class of a night that regions and tests read."""

    n: Whole = Field(
        description="number of records in the mean so far; before the opening, of records that "
        "wait for it. If labels are secret it is a released count, unbiased, so it may be below 0"
    )
    n_sd: Size = Field(0.0, description="standard deviation of its noise; 0 where n is public")
    coordinates: Coordinates | None
    certainty: CertaintyPart | None

    @cached_property
    def manifold(self) -> Manifold:
        """Manifold of the mean.

        Raises
        ------
        ConfigError
            Before the opening of the class.
        """
        if self.certainty is None or self.coordinates is None:
            raise ConfigError(
                "this night has no mean: before the opening of its class nothing is released"
            )
        return manifold_named(self.certainty.manifold, len(self.coordinates))

    @property
    def size(self) -> int:
        """Number of records that errors are of, at least 1: `n` where that is public."""
        return self.n if self.certainty is None else self.certainty.size or self.n

    @property
    def space(self) -> Manifold:
        """Its chart: streams live on flat manifolds."""
        return chart_of(self.manifold)

    @property
    def place(self) -> Point:
        """The mean of all records so far, a point of `space`."""
        assert self.coordinates is not None
        return point_at(self.manifold, self.coordinates)

    @property
    def noisy_moments(self) -> NoisyMoments:
        """Moments of the part of the mean with the most records.

        Raises
        ------
        ConfigError
            Before the opening of the class.
        """
        _ = self.manifold  # its own check
        assert self.certainty is not None
        return max((part.observed for part in self.certainty.parts), key=lambda moments: moments.n)

    @property
    def offered(self) -> bool:
        """True if it has a region."""
        return self.certainty is not None and self.certainty.offered

    @property
    def refusal(self) -> Refusal:
        """Reason why it has no region and no test, in words; "" where it has.

        It is a first look until an opening has as little noise as a region needs, which is public.
        """
        if (certainty := self.certainty) is None:
            waits = "it has not opened: nothing was released of it but how many records wait"
            return Refusal(waits)
        if certainty.offered:
            return Refusal()
        parts = sorted((part.observed for part in certainty.parts), key=lambda part: part.sigma)
        if (times := parts[0].sigma / NOISY) > 1.0:
            first = f"the noise of its first {parts[0].n} records"
            fact = f"{first} is {two_digits(times)} times too wide"
            return Refusal(f"{fact} for a test; the stream opens again with more", short=fact)
        reasons = map(region_refusal, parts)
        return next(filter(None, reasons), Refusal("its document offers no region"))

    @property
    def weighed(self) -> WeighedParts:
        """The share of each part in the mean, and what it released; none before the opening."""
        return [] if self.certainty is None else self.certainty.weighed

    @property
    def clipping(self) -> float:
        """Largest distance that clipping may have moved the mean."""
        return self._known.clipping

    @property
    def noise(self) -> FloatArray:
        """Covariance of the error of the mean, without clipping, (d, d)."""
        return self._known.noise

    def shape_of(self, of: Literal["sample", "population"]) -> FloatArray:
        """Return the covariance of all of the error against one of both means, (d, d).

        Parameters
        ----------
        of : {"sample", "population"}
            Mean that the error is against: that of the sample or that of the population.
        """
        population = None if of == "sample" else self._known.population
        return self._known.sample if population is None else population

    @property
    def _known(self) -> CertaintyPart:
        """Certainty of the mean, after the opening."""
        assert self.certainty is not None
        return self.certainty


class NightClassPart(StreamEntry, NamedPart):
    """A class of a night: what was released tonight, and what follows from all nights so far."""

    n_tonight: Label | None = Field(description="null where labels are secret, as n_so_far is")
    n_so_far: Label | None
    sigma: Size = Field(description="of the noise of each w, the same every night")
    w: Numbers | None = Field(description="weighted sums of clipped vectors, noised")
    count: Annotated[float, arrays.NUMBER] | None = Field(
        None, description="where labels are secret, the same of how many records came"
    )
    held: Whole | None = Field(
        None,
        description="where labels are secret, released count of those held back after a first look",
    )
    held_sd: Size = Field(0.0, description="standard deviation of its noise")
    moment: Numbers | None
    shells: Numbers | None
    opened: OpeningRelease | None
    epoch: Epoch | None
    point: Matrix | None = Field(description="the mean so far; null before the opening")
    no_point: Sentence | None
    windows: list[WindowPart]
    before: EstimatePart | None = Field(None, description="the mean of the streams before")
    joined: EstimatePart | None = Field(None, description="the mean of all streams together")

    @property
    def counts(self) -> tuple[str, str]:
        """Numbers of records tonight and so far, in words: secret ones with their noise."""
        if self.n_tonight is not None and self.n_so_far is not None:
            return f"{self.n_tonight:,}", f"{self.n_so_far:,}"
        n, deviation = self.n + (self.held or 0), math.hypot(self.n_sd, self.held_sd)
        return "secret", f"{n:,} ± {deviation:.2g}"


class NightDocument(Document):
    """The document of one night of a stream."""

    page: ClassVar[str] = "night"
    what: ClassVar[str] = "document of a night of a stream"
    counted: ClassVar[tuple[str, ...]] = ("tonight", "so far")

    account: AccountPart
    night: Count
    horizon: Count
    coefficient_norm: Size
    axes: Basis
    centre: Coordinates
    n_tonight: Label | None = Field(
        None,
        description="number of images or persons of all classes together tonight, where labels "
        "are secret",
    )
    classes: list[NightClassPart]

    @property
    def units_tonight(self) -> int:
        """Records of all classes that entered tonight; a person counts in each of their classes."""
        if self.n_tonight is not None:
            return self.n_tonight
        return sum(row.n_tonight or 0 for row in self.classes)

    @property
    def units_so_far(self) -> int:
        """Records of all classes up to tonight."""
        if self.settings.secret:
            return self.settings.total or 0
        return sum(row.n_so_far or 0 for row in self.classes)

    @property
    def plan(self) -> StreamPlan:
        """Plan of the stream."""
        return read_stream(self.settings).plan

    def price_in_words(self, paid: str, left: str) -> list[str]:
        """Return the number of the night, the cost of all, and the budget left then, line by line.

        Parameters
        ----------
        paid : str
            Cost, in words.
        left : str
            Budget left then, in words.
        """
        rest = self.horizon - self.night
        return [
            f"Night {self.night} of {self.horizon}, {rest} left at no further cost.",
            f"Paid: {paid}, once, when the stream was opened; left then: {left}.",
        ]

    @property
    def progress(self) -> str:
        """Number of the night, and of the records that came, in words."""
        new = f"{self.units_tonight:,} new {self.settings.unit}(s)"
        return f"night {self.night} of {self.horizon} with {new}"


def read_stream(settings: SettingsPart) -> StreamMechanism:
    """Return the stream of a class, from the settings of a document.

    Parameters
    ----------
    settings : SettingsPart
        Settings of the document.
    """
    assert settings.stream is not None
    budget, domain = budget_from(settings.definition, settings.budget), settings.domain
    stream = settings.stream
    again = later_openings(stream.opening)
    plan = StreamPlan(budget, stream.horizon, stream.opening, settings.secret, again)
    return StreamMechanism(plan, domain, MANIFOLDS[settings.manifold](k=domain.k))
