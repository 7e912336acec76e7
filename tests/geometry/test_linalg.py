"""Functions of small symmetric matrices: their laws, their accuracy, their errors."""

import math
from collections.abc import Callable

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from covdp.arrays import FloatArray
from covdp.errors import ConvergenceError, DomainError
from covdp.geometry import jacobi, sym_exp, sym_log, unvecd, vecd
from covdp.geometry import linalg as factors
from covdp.geometry.jacobi import SIMD_WIDTH
from covdp.geometry.linalg import assemble, cholesky, polar, spd_eig, sym_eig
from covdp.parallel import limited_to

ORDERS = (1, 2, 3, 5, 9, 11, 20, 30)


def symmetric(*batch: int, k: int, seed: int = 0) -> FloatArray:
    """Return random symmetric matrices with entries of size 1."""
    x = np.random.default_rng(seed).normal(size=(*batch, k, k))
    return (x + x.swapaxes(-1, -2)) / 2.0


def rotation(k: int, rng: np.random.Generator) -> FloatArray:
    """Return a random orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(k, k)))[0]


def spd(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return an SPD matrix with the given spectrum in random directions, exactly symmetric."""
    q = rotation(len(values), rng)
    x = (q * values) @ q.T
    return (x + x.T) / 2.0


def hard(k: int, kind: str, rng: np.random.Generator) -> FloatArray:
    """Return a matrix with spectrum in [1e-6, 1e6] made to defeat an algorithm."""
    index = np.arange(k)
    if kind == "spread":
        return spd(np.exp(rng.uniform(np.log(2e-6), np.log(9e5), size=k)), rng)
    if kind == "one small":
        return spd(np.where(index == 0, 2e-6, 9e5), rng)
    if kind == "one large":
        return spd(np.where(index == 0, 9e5, 2e-6), rng)
    if kind == "clusters":
        return spd(np.where(index < k // 2, 2e-6, 9e5) * (1.0 + 1e-9 * index), rng)
    scale = np.logspace(2.5, -2.5, k)  # graded rows, small angles between large and small
    return scale[:, None] * spd(rng.uniform(0.5, 2.0, size=k), rng) * scale


def exact_log(matrix: FloatArray) -> FloatArray:
    """Return the logarithm with 60 digits, rounded once."""
    with mpmath.workdps(60):
        values, vectors = mpmath.eigsy(mpmath.matrix(matrix.tolist()))
        logs = vectors * mpmath.diag([mpmath.log(value) for value in values]) * vectors.T
        return np.array(logs.tolist(), dtype=np.float64)


def test_vecd_is_an_isometry_with_the_documented_order() -> None:
    """‖vecd(X)‖₂ = ‖X‖_F; diagonal first, then √2 times the upper triangle row by row."""
    x = symmetric(4, 3, k=5)
    assert np.linalg.norm(vecd(x), axis=-1) == pytest.approx(np.linalg.norm(x, axis=(-2, -1)))
    named = np.array([[1.0, 4.0, 5.0], [4.0, 2.0, 6.0], [5.0, 6.0, 3.0]])
    root = math.sqrt(2.0)
    assert vecd(named) == pytest.approx([1.0, 2.0, 3.0, 4.0 * root, 5.0 * root, 6.0 * root])


@pytest.mark.parametrize("k", ORDERS)
def test_unvecd_inverts_vecd(k: int) -> None:
    """unvecd(vecd(X)) = X and vecd(unvecd(u)) = u, for every batch shape."""
    for batch in ((), (3,), (2, 3), (0,)):
        x = symmetric(*batch, k=k)
        np.testing.assert_allclose(unvecd(vecd(x)), x, rtol=1e-15, atol=0.0)
        u = np.random.default_rng(1).normal(size=(*batch, k * (k + 1) // 2))
        np.testing.assert_allclose(vecd(unvecd(u)), u, rtol=1e-15, atol=0.0)


@pytest.mark.parametrize("shape", [(), (0,), (2,), (3, 4), (5, 7)])
def test_unvecd_refuses_lengths_that_are_not_triangular(shape: tuple[int, ...]) -> None:
    """A coordinate vector whose length is not k(k+1)/2 raises DomainError."""
    with pytest.raises(DomainError, match="k\\(k\\+1\\)/2"):
        unvecd(np.zeros(shape))


@pytest.mark.parametrize("k", ORDERS)
def test_log_inverts_exp(k: int) -> None:
    """log(exp(S)) = S and exp(log(A)) = A for orders 1 to 30 and batches (), (3,), (2, 3)."""
    for batch in ((), (3,), (2, 3), (0,)):
        s = symmetric(*batch, k=k)
        a = sym_exp(s)
        assert a.shape == s.shape
        np.testing.assert_allclose(sym_log(a), s, atol=1e-11)
        np.testing.assert_allclose(
            sym_exp(sym_log(a)), a, rtol=1e-11, atol=1e-11 * a.max(initial=1)
        )


@pytest.mark.parametrize("function", [sym_log, sym_exp])
def test_functions_are_symmetric_to_the_last_bit(
    function: Callable[[FloatArray], FloatArray],
) -> None:
    """f(A) = f(A)ᵀ exactly."""
    out = function(sym_exp(symmetric(50, k=6)))
    np.testing.assert_array_equal(out, out.swapaxes(-1, -2))


@pytest.mark.parametrize("function", [sym_log, sym_exp])
def test_functions_read_the_symmetric_part(function: Callable[[FloatArray], FloatArray]) -> None:
    """f(A) = f((A + Aᵀ)/2) for an A that is not symmetric."""
    a = sym_exp(symmetric(k=4))
    skew = np.random.default_rng(3).normal(size=(4, 4))
    np.testing.assert_allclose(function(a + skew - skew.T), function(a), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("k", ORDERS)
def test_eigenvalues_ascend_and_rebuild_the_matrix(k: int) -> None:
    """V diag(λ) Vᵀ = A, VᵀV = Id, λ ascending, for indefinite A; λ as LAPACK gives them."""
    a = symmetric(9, k=k)
    values, vectors = sym_eig(a)
    assert (np.diff(values, axis=-1) >= 0.0).all()
    np.testing.assert_allclose(assemble(vectors, values), a, atol=1e-13 * k)
    eye = np.broadcast_to(np.eye(k), a.shape)
    np.testing.assert_allclose(vectors.swapaxes(-1, -2) @ vectors, eye, atol=1e-13)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-13 * k)


def test_special_spectra() -> None:
    """Zero, scaled identity, repeated eigenvalues and diagonal matrices are no special cases."""
    assert sym_eig(np.zeros((3, 3)))[0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)
    np.testing.assert_array_equal(sym_log(np.eye(4)), np.zeros((4, 4)))
    np.testing.assert_allclose(sym_log(7.0 * np.eye(4)), math.log(7.0) * np.eye(4), rtol=1e-15)
    values = np.array([1e-150, 1e-6, 1.0, 1e6, 1e150])
    np.testing.assert_allclose(sym_log(np.diag(values)), np.diag(np.log(values)), rtol=1e-14)
    twice = spd(np.array([2.0, 2.0, 2.0, 5.0, 5.0]), np.random.default_rng(0))
    np.testing.assert_allclose(sym_exp(sym_log(twice)), twice, atol=1e-14)


def test_cholesky_is_lower_triangular_and_rebuilds() -> None:
    """L Lᵀ = A with L lower triangular, diagonal positive."""
    a = sym_exp(symmetric(20, k=6))
    lower = cholesky(a)
    np.testing.assert_array_equal(lower, np.tril(lower))
    assert (np.diagonal(lower, axis1=-2, axis2=-1) > 0.0).all()
    np.testing.assert_allclose(lower @ lower.swapaxes(-1, -2), a, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", ["spread", "one small", "one large", "clusters", "graded"])
@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_error_of_logarithms_stays_small(kind: str, k: int) -> None:
    """On matrices made to be hard, spectrum in [1e-6, 1e6], the error is ≤ 1e-8."""
    rng = np.random.default_rng(k)
    for _ in range(3):
        a = hard(k, kind, rng)
        assert np.linalg.norm(vecd(sym_log(a)) - vecd(exact_log(a))) <= 1e-8


def test_logarithms_keep_digits_where_the_usual_algorithm_loses_them() -> None:
    """At condition 1e13 the error is below 1e-7; LAPACK's eigenvalues lose it from 1e-4 up."""
    rng = np.random.default_rng(5)
    ours, usual = [], []
    for _ in range(5):
        a = spd(np.array([1e-7, 1e-6, 1e-3, 1.0, 1e6]), rng)
        exact = exact_log(a)
        ours.append(np.abs(sym_log(a) - exact).max())
        values, vectors = np.linalg.eigh(a)
        usual.append(np.abs((vectors * np.log(values)) @ vectors.T - exact).max())
    assert max(ours) < 1e-7
    assert max(usual) > 1e-4


def test_small_eigenvalues_of_graded_matrices_are_relatively_accurate() -> None:
    """For A = S H S, S diagonal, H mild, all eigenvalues have 13 digits whatever the grading."""
    rng = np.random.default_rng(6)
    for _ in range(5):
        a = hard(5, "graded", rng)
        with mpmath.workdps(60):
            exact = [float(value) for value in mpmath.eigsy(mpmath.matrix(a.tolist()))[0]]
        np.testing.assert_allclose(np.sort(spd_eig(a)[0]), np.sort(exact), rtol=1e-13)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_results_do_not_depend_on_threads_or_chunks(threads: int) -> None:
    """A stack gives the same bits in one piece, in pieces, and with any number of threads."""
    a = sym_exp(3.0 * symmetric(4001, k=4))
    with limited_to(1):
        expected = np.concatenate([sym_log(a[:777]), sym_log(a[777:778]), sym_log(a[778:])])
    with limited_to(threads):
        np.testing.assert_array_equal(sym_log(a), expected)


def test_strided_input_is_read_as_it_is() -> None:
    """Views with strides and broadcast batches give what copies give."""
    a = sym_exp(symmetric(6, k=3))
    np.testing.assert_array_equal(sym_log(a[::2]), sym_log(a[::2].copy()))
    wide = np.broadcast_to(a[0], (4, 3, 3))
    np.testing.assert_array_equal(sym_log(wide), sym_log(wide.copy()))


BAD = {
    "indefinite": np.diag([1.0, -1.0]),
    "singular": np.ones((2, 2)),
    "zero": np.zeros((3, 3)),
    "singular by rounding": np.outer([1.0, 1 / 3, 1 / 7], [1.0, 1 / 3, 1 / 7]),
    "NaN": np.full((2, 2), np.nan),
    "infinite": np.diag([1.0, np.inf]),
    "not square": np.ones((2, 3)),
    "a vector": np.ones(3),
}


@pytest.mark.parametrize("function", [sym_log, spd_eig, cholesky])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_matrices_that_are_not_spd_raise(
    function: Callable[[FloatArray], FloatArray], bad: FloatArray
) -> None:
    """A matrix that is not SPD raises DomainError with one line, never NaN, also inside a stack."""
    with pytest.raises(DomainError) as caught:
        function(bad)
    assert "\n" not in str(caught.value)
    if bad.ndim == 2 and bad.shape[0] == bad.shape[1]:
        stack = np.broadcast_to(np.eye(len(bad)), (2000, *bad.shape)).copy()
        stack[1234] = bad
        with pytest.raises(DomainError):
            function(stack)


def test_matrices_that_are_indefinite_by_rounding_raise() -> None:
    """An exact determinant ≤ 0 raises, also where plain Cholesky passes.

    It has the sign of the least eigenvalue, as three of four are far above 0.
    """
    rng = np.random.default_rng(7)
    passed = 0
    for _ in range(300):
        x = rng.normal(size=(4, 3))
        a = x @ x.T
        with mpmath.workdps(60):
            determinant = mpmath.det(mpmath.matrix(a.tolist()))
        if determinant <= 0.0:
            with pytest.raises(DomainError):
                sym_log(a)
            try:
                np.linalg.cholesky(a)
                passed += 1
            except np.linalg.LinAlgError:
                pass
    assert passed > 5


@pytest.mark.parametrize("k", [2, 3, 5, 9])
@pytest.mark.parametrize("sign", [-0.99, 0.99])
def test_one_correction_squares_the_worst_cholesky_errors(k: int, sign: float) -> None:
    """With the worst errors f a Cholesky may make, the corrected factor is off by f²/8 to f²/2.

    Least eigenvalue 1e-6 along v = (1, …, 1)/√k, all others 1e6; errors of the size and signs that
    change vᵀAv most (Higham, "Accuracy and Stability of Numerical Algorithms", Theorem 10.5).
    """
    v = np.full(k, 1.0 / math.sqrt(k))
    a = 1e6 * (np.eye(k) - np.outer(v, v)) + 1e-6 * np.outer(v, v)
    scale = np.sqrt(np.diag(a))
    errors = sign * (k + 1) * 2.0**-53 * np.outer(scale, scale)
    with mpmath.workdps(60):
        exact = mpmath.matrix(a.tolist())
        start = mpmath.cholesky(exact + mpmath.matrix(errors.tolist()))
        inverse = mpmath.cholesky(exact) ** -1

        def off(factor: FloatArray) -> float:
            root = inverse * mpmath.matrix(factor.tolist())
            values = mpmath.eigsy(root * root.T, eigvals_only=True)
            return float(mpmath.sqrt(sum(mpmath.log(value) ** 2 for value in values)))

        lower = np.array(start.tolist(), dtype=np.float64)
        first, rest = off(lower), np.empty((k, k))
        factors._residual(a, lower, rest)
        assert factors._refine(lower, rest)
        assert first**2 / 8.0 < off(lower) < first**2 / 2.0


def test_rotations_always_settle() -> None:
    """Mild 2×2 and 3×3 matrices in great number all settle, one known to be hard included.

    With a tolerance of k · 2⁻⁵³ the first factor turns for ever between two roundings.
    """
    cycle = np.array([[1.2397092408557149, 0.0], [0.7012498723946519, 1.024071582677722]])
    np.testing.assert_allclose(polar(cycle) @ polar(cycle).T, np.eye(2), atol=1e-14)
    for k in (2, 3):
        lower = np.tril(np.random.default_rng(k).normal(size=(200_000, k, k)))
        turns = polar(lower + 0.1 * np.eye(k))
        eye = np.broadcast_to(np.eye(k), turns.shape)
        np.testing.assert_allclose(turns @ turns.swapaxes(-1, -2), eye, atol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 5, 11])
def test_side_by_side_is_as_alone_to_the_last_bit(k: int) -> None:
    """Matrices that take many sweeps or none, in groups and after them: the bits of each alone."""
    rng = np.random.default_rng(k)
    kinds = ("spread", "one small", "one large", "clusters", "graded")
    matrices = [np.eye(k), np.diag(np.arange(k) + 1.0), np.full((k, k), 3.0) + np.eye(k)]
    matrices += [hard(k, kinds[number % 5], rng) for number in range(2 * SIMD_WIDTH + 2)]
    values, vectors = spd_eig(np.stack(matrices))
    for number, matrix in enumerate(matrices):
        alone = spd_eig(matrix)
        assert values[number].tobytes() == alone[0].tobytes(), number
        assert vectors[number].tobytes() == alone[1].tobytes(), number


def test_a_zero_has_the_same_sign_side_by_side() -> None:
    """A factor with −0 beside its diagonal: alone nothing rotates it, among others all do."""
    lowers = cholesky(np.stack([hard(5, "spread", np.random.default_rng(i)) for i in range(8)]))
    lowers[3] = np.where(np.eye(5) > 0.0, lowers[3], -0.0)
    together, alone = lowers.copy(), lowers[3:4].copy()
    for group in (together, alone):
        squares, rights = np.empty((len(group), 5)), np.empty_like(group)
        assert jacobi.spectra(group, squares, rights, 0, 1)
    assert together[3].tobytes() == alone.tobytes()


def test_polar_factor() -> None:
    """L = S R with S = (L Lᵀ)^{1/2} symmetric and R = polar(L) orthogonal."""
    lower = cholesky(sym_exp(symmetric(9, k=5)))
    values, axes = np.linalg.eigh(lower @ lower.swapaxes(-1, -2))
    roots = (axes * np.sqrt(values)[:, None]) @ axes.swapaxes(-1, -2)
    np.testing.assert_allclose(roots @ polar(lower), lower, atol=1e-12)


def test_numbers_beyond_floating_point_raise() -> None:
    """An eigenvalue ratio that overflows the rotations raises ConvergenceError, not a wrong log."""
    matrix = np.array([[1e-160, 1e-160], [1e-160, 1e160]])
    with pytest.raises(ConvergenceError, match="rescale"):
        sym_log(matrix)
    with pytest.raises(ConvergenceError, match="rescale"):
        sym_log(np.stack([*[np.eye(2)] * (SIMD_WIDTH - 1), matrix]))


@pytest.mark.parametrize("size", [1e-120, 1e120, 1e160])
def test_multiples_have_their_logarithm(size: float) -> None:
    """log(c X) = log(c) Id + log(X); for 1e160 the product of two squared norms overflows."""
    matrix = np.array([[1.0, 1e-7], [1e-7, 1.0]])
    expected = math.log(size) * np.eye(2) + sym_log(matrix)
    np.testing.assert_allclose(sym_log(size * matrix), expected, rtol=0.0, atol=1e-12)


def test_pairs_of_a_sweep_are_complete_and_disjoint_in_rounds() -> None:
    """Every pair p < q comes once a sweep; the pairs of one round share no column."""
    for k in range(1, 13):
        pairs = jacobi.rounds(k)
        expected = {(p, q) for p in range(k) for q in range(p + 1, k)}
        assert {tuple(pair) for pair in pairs.tolist()} == expected
        assert len(pairs) == len(expected)
        for start in range(0, len(pairs), max(1, k // 2)):
            group = pairs[start : start + k // 2].ravel()
            assert len(set(group.tolist())) == len(group)


@pytest.mark.parametrize("lanes", [1, SIMD_WIDTH])
def test_rotations_that_are_not_done_are_taken_as_they_are(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No matrix ends a release by taking longer than others: what is left after so many is taken.

    Uncompiled, since the number of sweeps is compiled in.
    """
    monkeypatch.setattr(jacobi, "SWEEPS", 1)
    for name in ("_inner_products", "_find_angles", "_rotate"):
        monkeypatch.setattr(jacobi, name, getattr(jacobi, name).py_func)
    factor = np.tril(np.random.default_rng(3).standard_normal((5, 5))) + 3.0 * np.eye(5)
    columns, squares = np.repeat(factor.T[:, :, None], lanes, axis=2), np.empty((5, lanes))
    work = tuple(np.empty(lanes) for _ in range(4))
    assert jacobi._jacobi.py_func(columns, squares, jacobi.rounds(5), work)  # type: ignore[attr-defined]
    rows = columns[..., 0]
    assert np.abs(np.triu(rows @ rows.T, 1)).max() > 1e-12  # not settled
    assert squares[..., 0].sum() == pytest.approx(np.sum(factor**2))


def test_logarithms_side_by_side_are_those_one_by_one() -> None:
    """To the last bit, whichever stand beside each other, and for what is left of a group."""
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((2 * SIMD_WIDTH + 3, 5, 5)) * np.geomspace(1.0, 1e-4, 5)
    lowers = cholesky(wide @ wide.swapaxes(-1, -2) + 1e-8 * np.eye(5))
    where = np.array([[i % 3, i] for i in range(len(lowers))])
    bases, rotations = lowers[:3], polar(lowers[:3])
    alone, together = np.empty((2, len(lowers), 15))
    for i in range(len(lowers)):
        assert jacobi.logs(bases, rotations, lowers, where[i : i + 1], alone[i : i + 1], 0, 1)
    assert jacobi.logs(bases, rotations, lowers, where, together, 0, 3)
    assert alone.tobytes() == together.tobytes()
