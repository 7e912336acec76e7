"""Estimators for scikit-learn's pipelines: descriptors of images, and private means of matrices.

    images ─► CovarianceDescriptors ─► matrices ─┬► PrivateMean ─► mean_, covariance_, region_
              (transform)                        └► any estimator of pyRiemann or scikit-learn

Parameters are stored as they were given, as scikit-learn wants it. Its contract is left in three
things. Images and matrices have three axes or more, so ``n_features_in_`` is the length of the
second, and ``check_estimator`` leaves out its checks of tables. A matrix is no row of a table, so
``set_output`` is not available, as in pyRiemann. A domain and a budget are public and have no
default.
"""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from covdp.addons.partners.coordinates import coordinates_at
from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import describe
from covdp.descriptors.describe import find_descriptor
from covdp.errors import ConfigError, DatasetError
from covdp.geometry import Manifold
from covdp.inference import certainty_refusal, region
from covdp.mean import private_mean
from covdp.mean.public_model import Domain
from covdp.mean.release import Release
from covdp.mechanisms import LATTICE
from covdp.privacy import Budget

NO_DOMAIN = (
    "PrivateMean needs a domain, which is public and never taken from X; give "
    'domain=covdp.domain("oct5", height=28, width=28) with the descriptor and the size of your '
    "images, or a covdp.Ball"
)
"""Refusal of a fit without a domain."""
WEIGHTED = "PrivateMean counts each record once; give equal weights, or leave sample_weight out"
"""Refusal of weights: the noise hides one record of weight 1."""


class _ArrayEstimator(BaseEstimator):
    """Estimator of arrays of three axes or more."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        tags.requires_fit = not hasattr(self, "transform")
        return tags

    def _validated(self, X: Any, *, reset: bool, dtype: Any = None) -> NDArray[Any]:
        """Return X as an array, checked as scikit-learn does it."""
        return np.asarray(validate_data(self, X, reset=reset, allow_nd=True, dtype=dtype))


class CovarianceDescriptors(  # type: ignore[call-arg]  # scikit-learn has no types
    TransformerMixin, _ArrayEstimator, auto_wrap_output_keys=None
):
    """Transformer of images into covariance descriptors; it learns nothing.

    Parameters
    ----------
    descriptor : str
        Name of a descriptor, see `covdp.describe`.
    eta : float
        Least eigenvalue η of each matrix.

    Attributes
    ----------
    n_features_in_ : int
        Height of the images of `fit`.
    image_shape_ : tuple of int
        Shape of one image of `fit`.

    See Also
    --------
    covdp.describe : the same as a function.

    Examples
    --------
    >>> import covdp
    >>> from covdp.estimators import CovarianceDescriptors
    >>> images = next(covdp.open_dataset("tiles").chunks(label=0))
    >>> CovarianceDescriptors("oct5").fit_transform(images).shape
    (1220, 5, 5)
    """

    def __init__(self, descriptor: str = "oct5", eta: float = 1e-6) -> None:
        self.descriptor = descriptor
        self.eta = eta

    def fit(self, X: ImageArray, y: object = None) -> "CovarianceDescriptors":
        """Check the images; nothing is learned from them.

        Parameters
        ----------
        X : uint8 array, shape (n, h, w), (n, h, w, 3) or (n, d, h, w)
            Images, as `covdp.describe` takes them.
        y : object
            Classes, which are not read.

        Returns
        -------
        CovarianceDescriptors
            The same transformer.
        """
        images = self._validated(X, reset=True)
        describe(images[:1] if images.ndim > 2 else images, self.descriptor, self.eta)
        self.image_shape_ = images.shape[1:]
        return self

    def transform(self, X: ImageArray) -> FloatArray:
        """Return the descriptor of each image.

        Parameters
        ----------
        X : uint8 array, shape (n, h, w), (n, h, w, 3) or (n, d, h, w)
            Images of the size of those of `fit`.

        Returns
        -------
        array, shape (n, k, k)
            Symmetric positive definite matrices.

        Raises
        ------
        DatasetError
            For images of another width, or other channels, than those of `fit`.
        ValueError
            For images of another height, in scikit-learn's words.
        """
        images = self._validated(X, reset=False)
        wanted = getattr(self, "image_shape_", images.shape[1:])
        if images.shape[1:] != wanted:
            raise DatasetError(
                f"fit had images of shape {wanted}, found {images.shape[1:]}; resize or pad them"
            )
        return describe(images, self.descriptor, self.eta)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the rows, and columns, of the matrices.

        Parameters
        ----------
        input_features : object
            Names of the input, which are not read.

        Returns
        -------
        array of str, shape (k,)
            Features of a pixel.
        """
        check_is_fitted(self, "n_features_in_")
        return np.array(find_descriptor(self.descriptor).features, dtype=object)


class PrivateMean(_ArrayEstimator):
    """Estimator of the private mean of matrices; each fit spends its budget anew.

    No ledger pays: whoever fits k times on the same records releases k means, in GDP at √k·μ
    together, and cross-validation fits once a fold. ``covdp release`` keeps account. The mean is
    called like a function, too: pyRiemann takes it in place of the name of a mean, see Examples.

    Parameters
    ----------
    budget : Budget
        Budget of one fit, such as ``covdp.GDP(0.5)``; `covdp.privacy` has all kinds.
    manifold : str or Manifold
        Geometry, or its name in `covdp.MANIFOLDS`.
    domain : Domain
        Public bound on the matrices, of `covdp.domain` or a `covdp.Ball`. It is never taken from
        data: None, which scikit-learn wants as default, is refused by `fit`. Matrices outside are
        moved to its nearest point.
    total : int, optional
        Public number of records of all classes together, if the class of a record is secret; left
        out, the number of records of X is public.
    random_state : int, numpy.random.RandomState or None
        None is the hardened noise of releases, from the operating system's entropy. All else is
        for repeatable experiments, and **what is drawn with it is not for release**: whoever knows
        or guesses it takes the noise off. An int gives the same X the same noise, and other X
        other noise.

    Attributes
    ----------
    mean_ : array, shape (k, k)
        Private mean.
    covariance_ : array, shape (d, d), or None
        Private covariance of single records, in the manifold's coordinates at the mean; None where
        there is no region.
    region_ : covdp.inference.ConfidenceRegion or None
        Region of 95 % of the mean of these records; None where there is too much noise for one.
    release_ : Release
        All that was released: ``release_.to_document()`` is for ``covdp compare`` and its like.
    n_features_in_ : int
        Side k of the matrices.

    See Also
    --------
    covdp.private_mean : the same as a function, with the true error.

    Examples
    --------
    >>> import covdp
    >>> from covdp.estimators import CovarianceDescriptors, PrivateMean
    >>> from pyriemann.classification import MDM
    >>> from sklearn.pipeline import make_pipeline
    >>> limit = covdp.domain("oct5", height=28, width=28)
    >>> private = PrivateMean(covdp.GDP(1.0), domain=limit, random_state=0)
    >>> images = next(covdp.open_dataset("tiles").chunks(label=0))
    >>> make_pipeline(CovarianceDescriptors("oct5"), private).fit(images)[-1].mean_.shape
    (5, 5)
    >>> classifier = MDM(metric={"mean": private, "distance": "logeuclid"})
    """

    def __init__(
        self,
        budget: "Budget",
        manifold: "str | Manifold" = "spd-log-euclidean",
        domain: "Domain | None" = None,
        *,
        total: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.budget = budget
        self.manifold = manifold
        self.domain = domain
        self.total = total
        self.random_state = random_state

    def fit(self, X: FloatArray, y: object = None) -> "PrivateMean":
        """Draw the private mean of some matrices.

        Parameters
        ----------
        X : array, shape (n, k, k)
            Symmetric positive definite matrices, the records of one class.
        y : object
            Classes, which are not read: a mean is of one class.

        Returns
        -------
        PrivateMean
            The same estimator.

        Raises
        ------
        ConfigError
            Without a domain.
        """
        self.release_ = self._drawn(self._validated(X, reset=True, dtype=np.float64))
        self.mean_ = self.release_.point
        self.covariance_ = self.region_ = None
        if self.release_.moments and not certainty_refusal(self.release_):
            self.covariance_ = coordinates_at(self.release_, self.release_.place).single
            self.region_ = region(self.release_, 0.95)
        return self

    def __call__(self, X: FloatArray, sample_weight: FloatArray | None = None) -> FloatArray:
        """Return the private mean of some matrices, as a function of pyRiemann's does.

        Parameters
        ----------
        X : array, shape (n, k, k)
            Symmetric positive definite matrices.
        sample_weight : array, shape (n,), optional
            Equal weights, which pyRiemann passes; others are refused.

        Returns
        -------
        array, shape (k, k)
            Private mean.

        Raises
        ------
        ConfigError
            For weights that differ, and without a domain.
        ValueError
            For weights of another number than the matrices, in scikit-learn's words.
        """
        some = sample_weight is not None and len(X)  # of no matrices the mean says what is wrong
        weights = _check_sample_weight(sample_weight, X) if some else 1.0
        if np.ptp(weights) != 0.0 or np.min(weights) <= 0.0:
            raise ConfigError(WEIGHTED)
        return self._drawn(np.asarray(X, dtype=np.float64)).point

    def _drawn(self, X: FloatArray) -> Release:
        """Return the release of some matrices; nothing else that was computed of them is kept."""
        if self.domain is None:
            raise ConfigError(NO_DOMAIN)
        source: Any = LATTICE
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(2**31 - 1, size=4)
            source = np.random.default_rng([*seed, zlib.crc32(X.tobytes())])
        known: Any = {"domain": self.domain, "manifold": self.manifold, "total": self.total}
        return private_mean(X, self.budget, rng=source, **known)[0]
