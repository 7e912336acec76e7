"""What a private mean comes out as: what may leave, and what may not."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold
from pipeline.mean.labels import ReleasedCount
from pipeline.mean.noisy_moments import NoisyMoments
from pipeline.privacy import Budget, compose

NOT_ADAPTIVE = (
    "regions, tests and classifiers need what an adaptive mean observed, and this release holds "
    'none: release with mechanism = "auto", or plan="auto", in this version or later'
)


class Step(NamedTuple):
    """One draw of noise: on what, its share, how far a record could move it (Δ), and σ."""

    name: str
    budget: Budget
    sensitivity: float
    sigma: float


class Release(NamedTuple):
    """Private and free to leave.

    Attributes
    ----------
    outputs : array, shape (size, *space.point_shape)
        The private means, as points of `space`.
    manifold, space : Manifold
        Where the means live, and where they were drawn: the manifold, or its chart at the origin.
    steps : tuple of Step
        What the budget was spent on, in order; their shares compose to it.
    rhos : array, shape (size, steps)
        ρ-zCDP that the source of noise certifies for each step, NaN where it does not.
    expected_error : float or None
        Exact expectation of the distance to the mean, where the law gives it.
    predicted_error : array, shape (size,), or None
        Root mean square error predicted from public and released values, where it can be: an
        estimate.
    acceptance : float
        Share of proposals the sampler kept.
    seconds : float
        Wall time of one draw.
    moments : tuple of NoisyMoments
        What the last round of each draw of an adaptive plan released; empty for a single one.
    class_size : ReleasedCount or None
        The number of records, with noise, where labels are secret.
    """

    outputs: NDArray[Any]
    manifold: Manifold
    space: Manifold
    steps: tuple[Step, ...]
    rhos: FloatArray
    expected_error: float | None
    predicted_error: FloatArray | None
    acceptance: float
    seconds: float
    moments: tuple[NoisyMoments, ...] = ()
    class_size: ReleasedCount | None = None

    @property
    def points(self) -> NDArray[Any]:
        """The private means, shape (size, *manifold.point_shape), as near as doubles hold them.

        Matrices are definite. `coordinates` are what was released, exactly.
        """
        if self.space is self.manifold:
            return self.outputs
        found = self.manifold.exp(self.manifold.origin, self.outputs)
        definite = getattr(self.manifold, "definite", None)
        return found if definite is None else np.asarray(definite(found))

    @property
    def point(self) -> NDArray[Any]:
        """The first private mean, shape (*manifold.point_shape)."""
        return np.asarray(self.points[0])

    @property
    def coordinates(self) -> FloatArray:
        """The first private mean in the chart at the origin, shape (d,)."""
        return self.space.log(self.space.origin, self.outputs[0])

    @property
    def place(self) -> NDArray[Any]:
        """The first private mean, a point of `space`."""
        return np.asarray(self.outputs[0])

    @property
    def noisy_moments(self) -> NoisyMoments:
        """What the last round of the first mean released, its base a point of `space`.

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
        """Every draw as a release of its own, as if nothing else had been drawn."""
        predicted, count = self.predicted_error, self.class_size
        return [
            self._replace(
                outputs=self.outputs[[draw]],
                rhos=self.rhos[[draw]],
                predicted_error=None if predicted is None else predicted[[draw]],
                moments=self.moments[draw : draw + 1],
                class_size=None if count is None else count.at(draw),
            )
            for draw in range(len(self.outputs))
        ]

    @property
    def budget(self) -> Budget:
        """What each of the means cost: its steps, composed."""
        return compose(step.budget for step in self.steps)

    @property
    def sensitivity(self) -> float:
        """Δ of the last step."""
        return self.steps[-1].sensitivity

    @property
    def sigma(self) -> float:
        """σ of the last step."""
        return self.steps[-1].sigma


class NonPrivate(NamedTuple):
    """Computed from the records and not private: for experiments, never for a release's files.

    Shown, it tells nothing but that it is not private.

    Attributes
    ----------
    mean : array, shape (*point_shape)
        The certified Fréchet mean.
    gradient_norm : float
        Its certificate.
    error : float
        Distance of the private mean to it.
    n : int
        Number of records.
    """

    mean: NDArray[Any]
    gradient_norm: float
    error: float
    n: int

    def __repr__(self) -> str:
        """Show no value."""
        return "NonPrivate(…)"
