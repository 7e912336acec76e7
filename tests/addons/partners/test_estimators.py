"""Estimators for scikit-learn: its contract, its pipelines, and nothing public taken from data.

Noise is seeded where a test rests on a draw, but for the hardened one of releases.
"""

import inspect
import pickle
import pydoc
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyriemann.classification import MDM
from pyriemann.tangentspace import TangentSpace
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_checks, get_tags

import covdp
import covdp.estimators
from covdp import GDP, Ball, PureDP, describe, domain, open_dataset
from covdp.arrays import FloatArray, ImageArray
from covdp.errors import ConfigError, CovdpError, DatasetError
from covdp.estimators import CovarianceDescriptors, PrivateMean
from covdp.geometry import vecd
from covdp.geometry.linalg import sym_log
from covdp.inference import region

LIMIT = domain("oct5", height=28, width=28)
FLAT = "spd-log-euclidean"
BALL = Ball(3.0, FLAT)


@cache
def tiles() -> tuple[ImageArray, NDArray[np.int64]]:
    """Return 300 tiles of retina and of cells, one after another, and their classes."""
    source = open_dataset("tiles")
    parts = [next(source.chunks(label=label))[:300] for label in (1, 2)]
    order = np.random.default_rng(1).permutation(600)
    return np.concatenate(parts)[order], np.repeat([0, 1], 300)[order]


@cache
def matrices() -> FloatArray:
    """Return the descriptors of the tiles of retina."""
    images, classes = tiles()
    return describe(images[classes == 0], "oct5")


class Rows:
    """Estimators that say they take two axes, so that scikit-learn runs its checks at all."""

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator but for this."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = True
        return tags


class DescriptorsOfRows(Rows, CovarianceDescriptors, auto_wrap_output_keys=None):
    """The transformer, nothing of it changed but what it says of its input."""


class MeanOfRows(Rows, PrivateMean):
    """The private mean, nothing of it changed but what it says of its input."""


def images_of(rows: Any) -> ImageArray:
    """Return an image of each row of a check, (n, p, 3): gray levels in the order of its values."""
    levels = np.clip(128 + 40 * np.asarray(rows, dtype=float), 0, 255).astype(np.uint8)
    return levels[:, :, np.newaxis] + np.arange(3, dtype=np.uint8)


def covariances_of(rows: Any) -> FloatArray:
    """Return a positive definite matrix of each row of a check, (n, p, p)."""
    values = np.asarray(rows, dtype=float)
    squares = np.einsum("ni,nj->nij", values, values)
    return squares / (1.0 + (values**2).sum(axis=1))[:, None, None] + np.eye(values.shape[1])


TWO_AXES = "it unpacks, or reshapes to, two axes; see the tests of batches below"
SPARSE = "sparse arrays have two axes"
EIGHT_BITS = "images are of 8 bits: floats and objects are refused, as their scale is not known"
SHIFTED = "it takes the mean off, and such matrices are not positive definite"
NOT_FOR = {
    "check_estimator_sparse_tag": SPARSE,
    "check_estimator_sparse_array": SPARSE,
    "check_estimator_sparse_matrix": SPARSE,
}
CASES: dict[str, tuple[Any, Callable[[Any], Any], dict[str, str]]] = {
    "descriptors": (
        DescriptorsOfRows(),
        images_of,
        {
            **NOT_FOR,
            "check_estimators_dtypes": EIGHT_BITS,
            "check_dtype_object": EIGHT_BITS,
            "check_transformer_preserve_dtypes": EIGHT_BITS,
            "check_transformer_data_not_an_array": TWO_AXES,
            "check_transformer_general": TWO_AXES,
            "check_methods_subset_invariance": TWO_AXES,
            "check_fit2d_predict1d": TWO_AXES,
        },
    ),
    "mean": (
        MeanOfRows(GDP(1.0), domain=BALL),
        covariances_of,
        {**NOT_FOR, "check_positive_only_tag_during_fit": SHIFTED},
    ),
}
"""Estimator, what rows become for it, and checks that do not apply, with the reason of each."""


@pytest.mark.parametrize("name", CASES)
def test_every_check_of_scikit_learn_that_applies_passes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows become images or matrices where scikit-learn fits data to an estimator's tags.

    Those that do not apply are listed with the reason, and no other fails; of two tens and more
    each one has passed.
    """
    estimator, made, others = CASES[name]

    def fitted(_: Any, X: Any, X_test: Any = None, kernel: Any = None) -> Any:
        return made(X) if X_test is None else (made(X), made(X_test))

    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", fitted)
    results = estimator_checks.check_estimator(
        estimator, expected_failed_checks=others, on_skip=None, on_fail=None
    )
    failed = {row["check_name"]: row["exception"] for row in results if row["status"] == "failed"}
    assert failed == {}
    assert {row["check_name"] for row in results if row["status"] == "xfail"} == set(others)
    skipped = {row["check_name"] for row in results if row["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # with SCIPY_ARRAY_API alone
    assert len({row["check_name"] for row in results if row["status"] == "passed"}) >= 25


@pytest.mark.parametrize(
    "estimator", [CovarianceDescriptors(), PrivateMean(GDP(1.0), domain=LIMIT)], ids=list(CASES)
)
def test_an_estimator_says_that_it_takes_three_axes(estimator: Any) -> None:
    """So scikit-learn itself, told nothing else, checks that it can be cloned and leaves the rest.

    Its parameters are those it was made with, the very objects, and `set_params` sets them.
    """
    tags = get_tags(estimator)
    assert (tags.input_tags.two_d_array, tags.input_tags.three_d_array) == (False, True)
    assert tags.requires_fit == isinstance(estimator, PrivateMean)
    with pytest.warns(SkipTestWarning, match="three_d_array=True"):
        results = estimator_checks.check_estimator(estimator, on_skip=None)
    assert {row["check_name"]: row["status"] for row in results} == {
        "check_estimator_cloneable": "passed"
    }
    other = clone(estimator)
    assert other.get_params() == estimator.get_params()
    changed = {"eta": 1e-3} if "eta" in other.get_params() else {"budget": GDP(2.0)}
    assert other.set_params(**changed).get_params() == {**estimator.get_params(), **changed}


def test_descriptors_are_those_of_the_function() -> None:
    """Fitted or not, of all images or one by one, of a list or of memory that is read alone."""
    images, _ = tiles()
    expected = describe(images, "oct5")
    transformer = CovarianceDescriptors("oct5")
    np.testing.assert_array_equal(transformer.transform(images), expected)
    np.testing.assert_array_equal(transformer.fit_transform(images), expected)
    assert transformer.n_features_in_ == 28
    each = [transformer.transform(images[[place]])[0] for place in range(20)]
    np.testing.assert_array_equal(each, expected[:20])
    locked = images[:20].copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(transformer.transform(locked), expected[:20])
    np.testing.assert_array_equal(transformer.transform(list(images[:20])), expected[:20])
    np.testing.assert_array_equal(transformer.transform(images[:20, ::-1][:, ::-1]), expected[:20])
    colour = np.random.default_rng(0).integers(0, 256, (4, 9, 8, 3), dtype=np.uint8)
    found = CovarianceDescriptors("grid11", eta=1e-4).fit_transform(colour)
    np.testing.assert_array_equal(found, describe(colour, "grid11", 1e-4))


def test_names_are_those_of_rows_and_columns() -> None:
    """One a feature, after `fit`; matrices cannot become a table, so `set_output` is not there."""
    images, _ = tiles()
    transformer = CovarianceDescriptors("gauss6")
    with pytest.raises(NotFittedError):
        transformer.get_feature_names_out()
    names = transformer.fit(images).get_feature_names_out()
    assert list(names) == list(covdp.DESCRIPTORS["gauss6"].features)
    assert len(names) == transformer.transform(images[:1]).shape[1]
    assert not hasattr(transformer, "set_output")


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((4, 28, 28)), "images must be uint8"),
        (np.zeros((4, 28), np.uint8), r"images must have shape .* found \(4, 28\)"),
        (np.zeros((4, 28, 28, 3), np.uint8), "for these choose grid11"),
    ],
)
def test_images_that_do_not_fit_are_one_line(images: Any, words: str) -> None:
    """The rule, the value and the way out, when fitted and when transformed."""
    for method in (CovarianceDescriptors().fit, CovarianceDescriptors().transform):
        with pytest.raises(DatasetError, match=words) as told:
            method(images)
        assert "\n" not in str(told.value)
    for name in ("oct6", 5, None):
        with pytest.raises(ConfigError, match=f"unknown descriptor {name!r}; .*choose one of oct5"):
            CovarianceDescriptors(name).fit(np.zeros((4, 28, 28), np.uint8))


def test_images_of_another_size_are_refused() -> None:
    """As scikit-learn refuses another number of features; the width is no feature of it."""
    transformer = CovarianceDescriptors().fit(tiles()[0])
    with pytest.raises(ValueError, match="X has 27 features, but CovarianceDescriptors"):
        transformer.transform(tiles()[0][:, :27])
    with pytest.raises(DatasetError, match=r"fit had images of shape \(28, 28\), found \(28, 27\)"):
        transformer.transform(tiles()[0][:, :, :27])


def test_a_class_without_records_is_one_line() -> None:
    """Of labels that are no number pyRiemann makes a class of no matrix."""
    labels = np.where(np.arange(300) == 5, np.nan, np.arange(300) % 2)
    with pytest.raises(CovdpError, match="a mean needs one record or more, found 0"):
        MDM(metric={"mean": private(1.0), "distance": "logeuclid"}).fit(matrices(), labels)


def test_noise_that_cannot_be_hardened_names_what_can() -> None:
    """In the words of Python, as no option of a command is at hand."""
    with pytest.raises(CovdpError, match="give a budget of GDP or zCDP, or a generator of NumPy"):
        PrivateMean(PureDP(1.0), domain=LIMIT).fit(matrices())


def test_the_face_lists_its_members() -> None:
    """For `help`, and for whoever imports all."""
    names: dict[str, object] = {}
    exec("from covdp.estimators import *", names)
    assert set(names) - {"__builtins__"} == {"CovarianceDescriptors", "PrivateMean"}
    exec("from covdp.inference import *", names)
    assert {"region", "two_sample"} <= set(names)
    assert "CovarianceDescriptors(" in pydoc.render_doc(covdp.estimators)


def scored(*steps: Any) -> FloatArray:
    """Return the accuracies of a pipeline in five folds of the tiles."""
    images, classes = tiles()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = make_pipeline(CovarianceDescriptors(), *steps)
    return np.asarray(cross_val_score(model, images, classes, cv=folds))


def private(mu: float, **settings: Any) -> PrivateMean:
    """Return a private mean with noise of a seed, of GDP."""
    return PrivateMean(GDP(mu), domain=LIMIT, random_state=0, **settings)


def test_tangent_space_and_logistic_regression_are_cross_validated() -> None:
    """Retina and cells are told apart in more than 95 of 100 tiles; parameters are searched."""
    assert scored(TangentSpace(metric="logeuclid"), LogisticRegression(max_iter=1000)).min() > 0.95
    images, classes = tiles()
    steps = make_pipeline(
        CovarianceDescriptors(), TangentSpace(metric="logeuclid"), LogisticRegression(max_iter=1000)
    )
    names = ["oct5", "gauss6"]
    searched = GridSearchCV(steps, {"covariancedescriptors__descriptor": names}, cv=2)
    searched.fit(images, classes)
    assert searched.best_params_["covariancedescriptors__descriptor"] in names
    assert searched.best_score_ > 0.95


def test_the_nearest_private_mean_classifies_as_the_nearest_mean() -> None:
    """At n·μ of 240 all but the same; at n·μ of 2.4 it is near to a guess on average.

    Noise is of one seed, and of other X other noise: else both means would be moved alike.
    """
    plain = scored(MDM(metric="logeuclid"))
    near = scored(MDM(metric={"mean": private(1.0), "distance": "logeuclid"}))
    lost = scored(MDM(metric={"mean": private(0.01), "distance": "logeuclid"}))
    assert np.abs(near - plain).max() < 0.05
    assert lost.mean() < plain.mean() - 0.02


def test_a_mean_is_a_function_of_pyriemann() -> None:
    """With equal weights, which pyRiemann passes, and with none; the estimator stays as it was."""
    estimator = private(1.0)
    fitted = clone(estimator).fit(matrices())
    for weights in (None, np.ones(300), np.full(300, 2.0)):
        np.testing.assert_array_equal(estimator(matrices(), sample_weight=weights), fitted.mean_)
    assert not hasattr(estimator, "mean_")
    for weights in (np.arange(300), np.arange(300.0) + 1.0, np.full(300, -1.0)):
        with pytest.raises(ConfigError, match="give equal weights"):
            estimator(matrices(), sample_weight=weights)
    words = {3: r"sample_weight.shape == \(3,\), expected \(300,\)", 0: "0 sample", 301: "expected"}
    for many, told in words.items():
        with pytest.raises(ValueError, match=told):
            estimator(matrices(), sample_weight=np.ones(many))
    for wrong in (np.zeros(300), np.ones((300, 2)), np.full(300, np.nan), ["a"] * 300):
        with pytest.raises(ValueError, match=r"(?i)weight|string"):
            estimator(matrices(), sample_weight=wrong)
    point = TangentSpace(metric={"mean": estimator, "map": "logeuclid"}).fit(matrices()).reference_
    np.testing.assert_array_equal(point, fitted.mean_)


def test_a_fit_says_what_the_release_says() -> None:
    """Mean, region and covariance are those of the release, whose document is that of others."""
    images, _ = tiles()
    fitted = make_pipeline(CovarianceDescriptors(), private(2.0)).fit(images)[-1]
    release, points = fitted.release_, describe(images)
    np.testing.assert_array_equal(fitted.mean_, release.point)
    where = region(release, 0.95)
    assert fitted.region_.radius == where.radius
    assert fitted.region_.contains(covdp.frechet_mean(points, manifold=FLAT).point)
    assert fitted.covariance_.shape == (15, 15)
    exact = np.trace(np.cov(vecd(sym_log(points)).T))
    assert 0.5 * exact < np.trace(fitted.covariance_) < 2.0 * exact
    assert release.to_document("tiles")["settings"]["noise"] == "float"
    assert fitted.n_features_in_ == 5


@pytest.mark.parametrize("name", ["spd-log-cholesky", "spd-affine-invariant"])
def test_other_manifolds_have_means_and_regions(name: str) -> None:
    """By name, with a domain in their distance; another's is refused in one line."""
    limit = domain("oct5", height=28, width=28, manifold=name)
    fitted = PrivateMean(GDP(2.0), name, limit, random_state=0).fit(matrices())
    assert fitted.region_.manifold.name == name
    values = np.linalg.eigvalsh(fitted.covariance_)
    assert values[0] >= -1e-12 * values[-1]
    with pytest.raises(CovdpError, match=f"make the domain with manifold='{name}'"):
        PrivateMean(GDP(2.0), name, LIMIT).fit(matrices())


def test_without_a_region_there_is_neither_it_nor_a_covariance() -> None:
    """Of ten records, and of one draw of noise around the mean, only the mean is stated."""
    for fitted in (
        private(0.1).fit(matrices()[:10]),
        clone(private(1.0)).set_params(budget=PureDP(1.0)).fit(matrices()),
    ):
        assert fitted.mean_.shape == (5, 5)
        assert fitted.region_ is None
        assert fitted.covariance_ is None


def test_secret_classes_have_a_noised_size() -> None:
    """With the public number of all records; else the number of X is public."""
    assert private(1.0).fit(matrices()).release_.class_size is None
    fitted = private(1.0, total=600).fit(matrices())
    assert fitted.release_.class_size.total == 600
    assert fitted.release_.drawing.n is None


def test_a_domain_is_never_taken_from_data() -> None:
    """Without one nothing is fitted, and the refusal says what to give; a given one stays as is."""
    estimator = PrivateMean(GDP(1.0))
    for call in (estimator.fit, estimator):
        with pytest.raises(ConfigError, match=r"never taken from X; give domain=covdp\.") as told:
            call(matrices())
        assert "\n" not in str(told.value)
    assert not hasattr(estimator, "mean_")
    given = private(1.0)
    given.fit(matrices())
    assert given.domain is LIMIT
    assert given.release_.drawing.domain is LIMIT


def extremes(n: int) -> Sequence[FloatArray]:
    """Return n matrices, alike and as far apart as the domain has them, and beyond."""
    tiny, huge = 1e-6 * np.eye(5), 1e4 * np.eye(5)
    mixed = np.where(np.arange(n)[:, None, None] % 2, tiny, huge)
    return (np.repeat(tiny[None], n, 0), mixed, 1e30 * mixed, matrices()[:n])


@pytest.mark.parametrize("total", [None, 1000])
def test_noise_depends_on_nothing_of_the_records_but_their_public_number(total: int | None) -> None:
    """σ, Δ and the shares of the budget are equal for any X of n records.

    With secret classes n may differ, too: only the number of all records counts.
    """
    sizes = (200,) if total is None else (200, 30)
    steps = {private(0.5, total=total).fit(X).release_.steps for n in sizes for X in extremes(n)}
    assert len(steps) == 1
    (drawn,) = steps
    assert all(step.sigma > 0.0 for step in drawn)


def test_what_a_fit_keeps_holds_no_record_and_no_exact_mean() -> None:
    """Not a single double of either is among the bytes of the fitted estimator."""
    X = matrices()[:50] * np.linspace(0.9, 1.1, 50)[:, None, None]  # no round numbers
    kept = pickle.dumps(private(1.0).fit(X))
    exact = covdp.frechet_mean(X, manifold=FLAT).point
    doubles = np.concatenate([X.ravel(), exact.ravel()])
    assert [value for value in doubles if value.tobytes() in kept] == []


def test_without_a_random_state_noise_is_that_of_releases() -> None:
    """No two fits are alike, whatever NumPy was seeded with; with one they are, for the same X."""
    fits = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002  (what must not matter)
        fits.append(PrivateMean(GDP(1.0), domain=LIMIT).fit(matrices()))
    assert not np.array_equal(fits[0].mean_, fits[1].mean_)
    assert all(fitted.release_.drawing.hardened for fitted in fits)
    assert np.isfinite(fits[0].release_.rhos).all()
    seeded = [private(1.0).fit(X) for X in (matrices(), matrices(), matrices()[::-1])]
    np.testing.assert_array_equal(seeded[0].mean_, seeded[1].mean_)
    assert not np.array_equal(seeded[0].mean_, seeded[2].mean_)
    assert not seeded[0].release_.drawing.hardened
    state = np.random.RandomState(3)
    moving = PrivateMean(GDP(1.0), domain=LIMIT, random_state=state)
    assert not np.array_equal(moving.fit(matrices()).mean_, moving.fit(matrices()).mean_)


@pytest.mark.parametrize(
    ("settings", "X", "words"),
    [
        ({"budget": 0.5}, None, r"budget must be GDP\(0.5\)"),
        ({"domain": 3.0}, None, "domain must be a bound"),
        ({"manifold": "spd"}, None, "unknown manifold 'spd'"),
        ({"total": 0}, None, "1 or more"),
        ({"total": True}, None, "total must be a whole number or left out; found True"),
        ({}, -np.ones((5, 3, 3)), "positive definite"),
        ({}, np.ones((5, 3)), "matrices must have shape"),
    ],
)
def test_a_slip_of_a_mean_is_one_line(settings: Any, X: Any, words: str) -> None:
    """The rule and the value, of each parameter and of records that are none."""
    estimator = clone(private(1.0)).set_params(**settings)
    with pytest.raises(CovdpError, match=words) as told:
        estimator.fit(matrices() if X is None else X)
    assert "\n" not in str(told.value)


def test_a_pipeline_is_pickled_and_shown() -> None:
    """Fitted or not, what comes back predicts the same; a notebook shows its parameters."""
    images, classes = tiles()
    model = MDM(metric={"mean": private(1.0), "distance": "logeuclid"})
    steps = make_pipeline(CovarianceDescriptors(), model)
    again: Pipeline = pickle.loads(pickle.dumps(steps)).fit(images, classes)
    np.testing.assert_array_equal(again.predict(images), steps.fit(images, classes).predict(images))
    fitted = pickle.loads(pickle.dumps(private(1.0).fit(matrices())))
    np.testing.assert_array_equal(fitted.mean_, private(1.0).fit(matrices()).mean_)
    assert fitted.region_.radius == region(fitted.release_).radius
    shown = make_pipeline(CovarianceDescriptors("grid9"), private(1.0))._repr_html_()
    assert "CovarianceDescriptors" in shown
    assert "grid9" in shown
    assert "GDP(mu=1.0)" in repr(private(1.0))
    assert len(repr(private(1.0)).splitlines()) < 12
    signature = str(inspect.signature(PrivateMean))
    assert "budget: 'Budget'" in signature
    assert "covdp." not in signature


def test_a_missing_extra_is_named() -> None:
    """Where scikit-learn is not installed, in one line with what to install."""
    code = "import sys; sys.modules['sklearn'] = None; from covdp.estimators import PrivateMean"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = done.stderr.splitlines()[-1]
    assert "this needs sklearn, which a plain installation does not have" in told
    assert "pip install 'covdp[sklearn]'" in told


@pytest.mark.slow
def test_classifiers_of_radiographs_are_as_good_as_without_noise(shared: Path) -> None:
    """PneumoniaMNIST, trained on its own split: tangent space and logistic regression, AUC 0.943.

    The nearest of two private means at μ = 0.5 is right in 83.5 of 100 images, as without noise;
    its standard deviation between draws is 0.07, and noise is of one seed.
    """
    source = open_dataset("pneumoniamnist", shared)
    parts = {
        split: [np.concatenate(list(source.chunks(split=split, label=k))) for k in (0, 1)]
        for split in ("train", "test")
    }
    images = {split: np.concatenate(both) for split, both in parts.items()}
    truth = {split: np.repeat([0, 1], [len(x) for x in both]) for split, both in parts.items()}

    def fitted(*steps: Any) -> Pipeline:
        made = make_pipeline(CovarianceDescriptors(), *steps)
        return made.fit(images["train"], truth["train"])

    linear = fitted(TangentSpace(metric="logeuclid"), LogisticRegression(max_iter=1000))
    scores = linear.predict_proba(images["test"])[:, 1]
    assert roc_auc_score(truth["test"], scores) == pytest.approx(0.943, abs=0.002)
    plain = fitted(MDM(metric="logeuclid")).score(images["test"], truth["test"])
    private_metric = {"mean": private(0.5), "distance": "logeuclid"}
    noised = fitted(MDM(metric=private_metric)).score(images["test"], truth["test"])
    assert plain == pytest.approx(0.835, abs=0.001)
    assert noised == pytest.approx(plain, abs=0.01)
