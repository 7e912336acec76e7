"""Results of a private mean: what may leave, what may not, and whether labels are secret.

**Labels** are public or secret. That decides what neighbours are, and whether the count of a class
is released with noise.

*Public labels.* Neighbours differ in one record of one class. Its size n is public, and each step
releases a mean, which moves by at most Δ/n (``sensitivity.py``). Classes are disjoint, so all of
them together cost what one does (parallel composition).

*Secret labels.* In neighbours one record of one class becomes any other record **of any class**.
The number N of all records is public, and so is the list of classes; how many records a class has
is not. Each step releases the **sum** of the vectors of a class, with the same noise for every
class. A record's vector is its shell over √2 in a count, or u with ‖u‖² ≤ 3/8 in a mean
(``sums.py``: β + 2β² + ‖h‖², with overshoots or without, with products or without), to which one
more coordinate comes, a = √(1/8), the same for every record.

**Δ = 1 for all classes together.** Stack the sums of all classes, one block each. What replacing a
record moves in the stack, squared, is at most

=====================================  ==========================================================
in the mean of its class               ‖u − u'‖² ≤ 1, as a cancels: two such u are at most 1 apart
from class A to class B, of means      ‖u‖² + a² in A's block, ‖u'‖² + a² in B's: 2·(3/8 + 1/8) = 1
of a count, to another shell           ½ + ½ = 1, whether of the same class or of another
added, or removed                      at most 3/8 + 1/8 = ½, in one block
=====================================  ==========================================================

So one draw of noise on the stack costs its share once, for all classes. By the last row the same
noise makes the sums μ/√2-GDP for data sets that differ by the presence of one record: what is
released is that for neighbours that add or remove, as long as N itself is not stated.

**A class is drawn by itself.** The stacked mechanism is adaptive: in step t, given all that steps
before t released, block c is S_c + N(0, σ_t²·Id), S_c the sum over class c of a map that depends on
what was released before. Noise of a block is independent of that of all others. Let the map of
class c depend on the earlier blocks of class c alone. Then, given the data, the blocks of step t
are independent of each other and of what other classes released, so the joint density of all
blocks is Π_c Π_t p(block c of step t | earlier blocks of c): the same product in whatever order it
is drawn. Hence all steps of one class may be drawn before the next class begins. This needs that
every class makes the same steps with the same σ_t: they are functions of budget, N and dimension
(`rounds.step_costs`), never of a class. The budget's shares compose over t alone, once for all.

*Persons in up to g classes* are g records, one in each class they are in, and N is the number of
persons. Pair the records of a class that they are in before and after with each other, all others
in any order: every pair moves by at most 1 in blocks that no other pair touches, so squares add up:
√g·Δ, as with public labels.

**Numerics.** The margins of `vector_diameter` are twice what rounding does to one vector, of either
record. In two blocks they add up as squares do, to 1/√2 of that. a is a whole number of lattice
steps, at most √(1/8), and sums of a are exact. The sum of at most N vectors of norm √½ is rounded
once, each coordinate to within u of itself, in each block: in the stack by at most u·N/√2, on each
of the two data sets (with persons in g classes by √g times as much, as no class has more than N
records, and so is Δ). Together Δ = `vector_diameter` + 2uN
(`sensitivity.step_sensitivity`).

**Counts are free.** The last coordinate of a mean's sum, over a, is the number of records with
noise of σ/a. Those of all means, put together by precision, have a standard deviation of about
2.9/μ records with the usual shares. Their weights are functions of public σ, so this count is
unbiased, of any sign, and spread as stated: it is published as it is. Means divide by what it is so
far: post-processing. A divisor never is below its own standard deviation, or 1, nor above N, which
is public. Vectors are centred in the middle of their ball, so that a count that is off by a share
of itself moves a mean by that share of its way from there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, facts_html, facts_text
from covdp.errors import ConfigError
from covdp.geometry import Manifold, Point, chart_of, to_chart
from covdp.geometry.charts import Chart
from covdp.mean.noisy_moments import NoisyMoments
from covdp.mean.plan import Plan
from covdp.mean.public_model import Domain
from covdp.mean.sums import NORM, PER_UNIT
from covdp.mechanisms import Diagnostics
from covdp.privacy import Budget
from covdp.registry import Registry, at

LabelsWord: TypeAlias = Literal["secret", "public"]
"""Words that say to a door if classes are secret."""
COUNT_STEPS = math.isqrt(int((1.0 / 2.0 - NORM) * PER_UNIT**2))
"""a in steps of the lattice, from below: a² + `NORM` is at most ½."""
COUNT_UNIT = COUNT_STEPS / PER_UNIT
"""a: what each record adds to the last coordinate of a mean's sum, exactly."""


@dataclass(frozen=True)
class Labels:
    """Public facts of the classes of records.

    Attributes
    ----------
    total : int or None
        N: the public number of all records (of persons, where a person may be in several classes),
        where classes are secret. None where they are public, with the size of each.

    Examples
    --------
    >>> from covdp.mean import PUBLIC_LABELS, Labels
    >>> Labels(total=1000).secret, PUBLIC_LABELS.secret
    (True, False)
    """

    total: int | None = None

    @property
    def secret(self) -> bool:
        """True if the class of a record is secret."""
        return self.total is not None

    def divisor(self, n: int) -> int:
        """Return the divisor of the sums of n records before noise: n only if it is public.

        Parameters
        ----------
        n : int
            Number of records of a class.

        Returns
        -------
        int
            Divisor: n, or 1.
        """
        return n if self.total is None else 1

    def size(self, n: int) -> int:
        """Return a public number that no class is larger than: n itself only if it is public.

        Parameters
        ----------
        n : int
            Number of records of a class.

        Returns
        -------
        int
            Public bound on n.
        """
        return n if self.total is None else max(1, self.total)

    def counted(self, vector: FloatArray, n: int) -> FloatArray:
        """Return the mean's vector of n records, with Σ a as last coordinate if n is secret.

        Parameters
        ----------
        vector : array, shape (d + e,)
            Mean of the vectors, or their sum.
        n : int
            Number of records of a class.

        Returns
        -------
        array, shape (d + e,) or (d + e + 1,)
            Vector that noise is added to.
        """
        return vector if self.total is None else np.append(vector, n * COUNT_STEPS / PER_UNIT)


PUBLIC_LABELS = Labels()
"""Labels and class sizes are public."""


def read_labels(labels: LabelsWord | None, total: int | None) -> Labels:
    """Return the public facts of labels that the caller states; secret where a total is given.

    Parameters
    ----------
    labels : {"secret", "public"} or None
        Word of the caller.
    total : int or None
        Public number of records of all classes together.

    Returns
    -------
    Labels
        Public facts of the labels.

    Raises
    ------
    ConfigError
        For another word, for secret labels without a total of 1 or more, or public ones with one.
    """
    if labels is None:
        labels = "public" if total is None else "secret"
    if labels == "public" and total is None:
        return PUBLIC_LABELS
    if labels == "secret" and total is not None and total >= 1:
        return Labels(total)
    raise ConfigError(
        'labels must be "public", or "secret" with total, the public number of records of all '
        f"classes together, 1 or more; found {labels!r} with total {total}"
    )


class ReleasedCount(NamedTuple):
    """Released numbers of records of a class, of each repetition; all of it is public.

    Attributes
    ----------
    value : array, shape (r,)
        Counts, of any sign.
    variance : array, shape (r,)
        Variance of their noise.
    total : int
        Public number N of all records.
    """

    value: FloatArray
    variance: FloatArray
    total: int

    @property
    def sd(self) -> FloatArray:
        """Standard deviation of the noise, and of rounding to whole numbers, (r,)."""
        return np.asarray(np.sqrt(self.variance + 1.0 / 12.0))

    @property
    def divisor(self) -> FloatArray:
        """Divisor of sums, (r,): whole, at least 1 and the noise's own size, at most N."""
        least = np.minimum(np.maximum(1.0, self.sd), self.total)
        return np.rint(np.clip(self.value, least, self.total))

    @property
    def relative(self) -> FloatArray:
        """Relative standard deviation of the divisor, (r,)."""
        return np.asarray(self.sd / self.divisor)

    @property
    def shown(self) -> NDArray[np.int64]:
        """Count as it is published, (r,): a whole number, below 0 or above N as noise has it."""
        return np.rint(self.value).astype(np.int64)

    def joined(self, other: "ReleasedCount") -> "ReleasedCount":
        """Return two counts put together, by precision: their variances are public.

        Parameters
        ----------
        other : ReleasedCount
            Counts of the same records.

        Returns
        -------
        ReleasedCount
            Counts of less variance than either.
        """
        share = self.variance / (self.variance + other.variance)
        mean = self.value + share * (other.value - self.value)
        return ReleasedCount(mean, share * other.variance, self.total)

    @classmethod
    def of(cls, value: FloatArray, sigma: float, total: int) -> "ReleasedCount":
        """Return the counts that the last coordinates of a mean's sums say.

        Parameters
        ----------
        value : array, shape (r,)
            Last coordinates, noised.
        sigma : float
            Standard deviation σ of their noise.
        total : int
            Public number N of all records.

        Returns
        -------
        ReleasedCount
            Counts of each repetition.
        """
        variance = np.full(len(value), (sigma / COUNT_UNIT) ** 2)
        return cls(value / COUNT_UNIT, variance, total)

    def at(self, repetition: int) -> "ReleasedCount":
        """Return the count of one repetition, r = 1.

        Parameters
        ----------
        repetition : int
            Place of the repetition.

        Returns
        -------
        ReleasedCount
            Count of it alone.
        """
        return ReleasedCount(self.value[[repetition]], self.variance[[repetition]], self.total)

    @classmethod
    def joint(cls, counts: "Sequence[ReleasedCount]") -> "ReleasedCount":
        """Return the counts of several blocks of repetitions as one.

        Parameters
        ----------
        counts : sequence of ReleasedCount
            Counts of blocks, in order.

        Returns
        -------
        ReleasedCount
            Counts of all repetitions.
        """
        values, variances = (np.concatenate(part) for part in list(zip(*counts, strict=True))[:2])
        return cls(values, variances, counts[0].total)


NOT_ADAPTIVE = (
    "regions, tests and classifiers need what an adaptive mean observed, and this release holds "
    'none: release with mechanism = "auto", or plan="auto", in this version or later'
)


class Step(NamedTuple):
    """One draw of noise.

    Attributes
    ----------
    name : str
        Statistic that it was drawn on.
    budget : Budget
        Its share of the budget.
    sensitivity : float
        Largest move Δ by one record.
    sigma : float
        Standard deviation σ of the noise of each coordinate.
    """

    name: str
    budget: Budget
    sensitivity: float
    sigma: float


class Drawing(NamedTuple):
    """Public settings of a mean that Python drew.

    Attributes
    ----------
    budget : Budget
        Budget in all.
    domain : Domain
        Public bound on the records.
    plan : Plan
        Plan of spending.
    labels : Labels
        Public facts of the classes.
    n : int or None
        Number of records; None where it is secret.
    hardened : bool
        True if the noise is that of releases, False if a generator of NumPy drew it.
    """

    budget: Budget
    domain: Domain
    plan: Plan
    labels: Labels
    n: int | None
    hardened: bool


DocumentValues: TypeAlias = dict[str, object]
"""JSON values of a document."""
WRITERS = Registry[Callable[..., DocumentValues]](
    "writers", {"document": at("covdp.publish.drawn:drawn_document")}
)
"""Functions that write a release; they know more of the house than the heart does."""


class Release(NamedTuple):
    """Private means, free to leave.

    Attributes
    ----------
    outputs : array, shape (size, *space.point_shape)
        Private means, as points of `space`.
    manifold, space : Manifold
        Manifold that the means are on, and that they were drawn on: the manifold, or its chart at
        the origin.
    steps : tuple of Step
        Draws that the budget was spent on, in order; their shares compose to it.
    rhos : array, shape (size, steps)
        ρ-zCDP that the source of noise certifies for each step, NaN where it does not.
    expected_error : float or None
        Exact expectation of the distance to the mean, where the law gives it.
    predicted_error : array, shape (size,), or None
        Root mean square error predicted from public and released values, where it can be: an
        estimate.
    seconds : float
        Wall time of one draw.
    moments : tuple of NoisyMoments
        Moments that the last mean of each draw of an adaptive plan released; empty for a single
        one.
    diagnostics : Diagnostics
        Facts of the sampler's run.
    class_size : ReleasedCount or None
        Number of records, with noise, where labels are secret.
    footpoint : array, shape (size, *space.point_shape), or None
        Private footpoints of a single plan, one a draw; None for a public one.
    expected_square : float or None
        Exact expectation of the squared distance to the mean, where the law gives it.
    drawing : Drawing or None
        Settings of a mean that `covdp.private_mean` drew; None of any other.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import GDP, describe, domain, open_dataset, private_mean
    >>> release, _ = private_mean(
    ...     describe(next(open_dataset("tiles").chunks(label=0)), "oct5"),
    ...     GDP(1.0),
    ...     domain=domain("oct5", height=28, width=28),
    ...     manifold="spd-log-euclidean",
    ...     rng=np.random.default_rng(0),
    ... )
    >>> release.point.shape, release.coordinates.shape
    ((5, 5), (15,))
    >>> release.noisy_moments.vector.shape
    (15,)
    """

    outputs: Point
    manifold: Manifold
    space: Manifold
    steps: tuple[Step, ...]
    rhos: FloatArray
    expected_error: float | None
    predicted_error: FloatArray | None
    seconds: float
    moments: tuple[NoisyMoments, ...] = ()
    diagnostics: Diagnostics = Diagnostics()
    class_size: ReleasedCount | None = None
    footpoint: Point | None = None
    expected_square: float | None = None
    drawing: Drawing | None = None

    def __repr__(self) -> str:
        """Show what was released in five lines."""
        return facts_text("Release", self._facts)

    def _repr_html_(self) -> str:
        """Return the five facts as a table of a notebook."""
        return facts_html("Release", self._facts)

    @property
    def _facts(self) -> dict[str, str]:
        """Facts that are shown of a release, by name: all of them may leave."""
        count, predicted = self.class_size, self.predicted_error
        n = f"{self.moments[0].n:,}" if self.moments else "public"
        if count is not None:
            n = f"{count.shown[0]:,} ± {float(count.sd[0]):.2g}, released with noise"
        expected = self.expected_error if predicted is None else float(predicted[0])
        return {
            "means": f"{len(self.outputs)} on {self.manifold.title}, {self.manifold.name}",
            "records": n,
            "budget": ", ".join(f"{step.name} {step.budget}" for step in self.steps),
            "noise": f"σ = {self.sigma:.3g} in the last step",
            "predicted error": "not known" if expected is None else f"{expected:.3g}",
        }

    @property
    def points(self) -> Point:
        """Private means, (size, *manifold.point_shape), as near as doubles hold them.

        Matrices are definite. `coordinates` are what was released, exactly.
        """
        if self.space is self.manifold or not isinstance(self.space, Chart):
            return self.outputs
        return np.asarray(self.space.points(self.outputs))

    @property
    def placed(self) -> Point:
        """Private means as records are placed: points of `chart_of` the manifold.

        On a curved manifold they are `points`, whatever chart they were drawn in.
        """
        space = chart_of(self.manifold)
        return self.outputs if self.space == space else to_chart(self.manifold, self.points)

    @property
    def point(self) -> Point:
        """First private mean, (*manifold.point_shape)."""
        return np.asarray(self.points[0])

    @property
    def coordinates(self) -> FloatArray:
        """First private mean in the chart at the origin, (d,)."""
        return self.space.log(self.space.origin, self.outputs[0])

    @property
    def place(self) -> Point:
        """First private mean, a point of `space`."""
        return np.asarray(self.outputs[0])

    @property
    def noisy_moments(self) -> NoisyMoments:
        """Moments that the last step of the first mean released, their base a point of `space`.

        Raises
        ------
        ConfigError
            Of a mean of one draw.
        """
        if not self.moments:
            raise ConfigError(NOT_ADAPTIVE)
        return self.moments[0]

    @property
    def each(self) -> list["Release"]:
        """Releases of one draw each, as if nothing else had been drawn."""
        predicted, count, base = self.predicted_error, self.class_size, self.footpoint
        return [
            self._replace(
                outputs=self.outputs[[draw]],
                rhos=self.rhos[[draw]],
                predicted_error=None if predicted is None else predicted[[draw]],
                moments=self.moments[draw : draw + 1],
                class_size=None if count is None else count.at(draw),
                footpoint=None if base is None else base[[draw]],
            )
            for draw in range(len(self.outputs))
        ]

    @property
    def sigma(self) -> float:
        """Standard deviation σ of the noise of the last step."""
        return self.steps[-1].sigma

    def to_document(
        self,
        class_name: str = "all images",
        others: "Mapping[str, Release] | None" = None,
        *,
        name: str = "python",
        unit: Literal["image", "person"] = "image",
    ) -> DocumentValues:
        """Return a document of the first mean, which ``covdp compare`` reads; no ledger paid it.

        Parameters
        ----------
        class_name : str
            Name of the class.
        others : mapping of str to Release, optional
            Releases of further classes, by the name of the class, drawn with the same settings.
        name : str
            Name of the release, and of its population.
        unit : {"image", "person"}
            Meaning of one record: an image, or all images of a person in a class.

        Returns
        -------
        dict
            JSON values of the document; its ``account`` is None.

        Raises
        ------
        ConfigError
            For a release that `covdp.private_mean` did not draw, of a domain that is not a
            descriptor's, of a budget of two numbers, on another manifold than one of covariance
            matrices, and of classes that were drawn with other settings.

        Examples
        --------
        >>> import json
        >>> import numpy as np
        >>> from covdp import GDP, describe, domain, open_dataset, private_mean
        >>> release, _ = private_mean(
        ...     describe(next(open_dataset("tiles").chunks(label=0)), "oct5"),
        ...     GDP(1.0),
        ...     domain=domain("oct5", height=28, width=28),
        ...     manifold="spd-log-euclidean",
        ...     rng=np.random.default_rng(0),
        ... )
        >>> document = release.to_document("camera")
        >>> document["account"] is None, document["settings"]["noise"]
        (True, 'float')
        >>> text = json.dumps(document)
        """
        more = dict(others or {})
        if class_name in more:
            raise ConfigError(f"two classes are named {class_name!r}; give each a name of its own")
        write, releases = WRITERS["document"], {class_name: self, **more}
        return write(releases, name, unit)


class NonPrivate(NamedTuple):
    """Results computed from the records that are not private: for experiments only.

    Shown, it tells nothing but that it is not private.

    Attributes
    ----------
    mean : array, shape (*point_shape)
        Certified Fréchet mean.
    gradient_norm : float
        Norm of the gradient there: its certificate.
    error : float
        Distance of the private mean to it.
    n : int
        Number of records.
    """

    mean: Point
    gradient_norm: float
    error: float
    n: int

    def __repr__(self) -> str:
        """Show no value."""
        return "NonPrivate(…)"
