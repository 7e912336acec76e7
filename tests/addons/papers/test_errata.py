"""Every erratum has a counterexample, and both of its numbers are computed here again."""

import math
import pkgutil
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from sample_runs import write_sample
from scipy import integrate, special, stats

from covdp.addons.audit.cases import misprinted_sigma
from covdp.addons.papers.composition import (
    LINE,
    attained,
    one_loss,
    table_cells,
)
from covdp.addons.papers.errata import OUR_OWN, Errata, load_errata
from covdp.addons.papers.generalized_gaussian import rao_factor
from covdp.datasets import DATASETS
from covdp.errors import ConfigError
from covdp.experiments import load_experiments
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.additive import TANGENT_GAUSSIAN
from covdp.mechanisms.exponential import laplace_sensitivity
from covdp.mechanisms.radial import spectral_moment
from covdp.privacy import GDP, ApproxDP, PureDP, convert, laplace_epsilon, split
from covdp.privacy.conversion import analytic_mu
from covdp.report import build_report
from covdp.report.methods import references
from covdp.toml import parse

phi = special.ndtr


def noise_length(d: int) -> float:
    """Return the mean of χ_d."""
    return math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


def laguerre(d: int, x: float) -> float:
    """Return the Laguerre function of order ½ and index d/2 − 1."""
    at_zero = math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2) - math.lgamma(1.5))
    return at_zero * float(special.hyp1f1(-0.5, d / 2, x))


def delta(sigma: float, half: float, *, sign: float = -1.0, epsilon: float = 1.0) -> float:
    """Return Φ(−σε + half) − e^ε·Φ(−σε + sign·half), of sensitivity 1."""
    first, second = (-sigma * epsilon + s * half for s in (1.0, sign))
    return float(phi(first) - math.exp(epsilon) * phi(second))


def curved_error(d: int, apart: float, sigma: float) -> float:
    """Return the exact mean error of wrapped Gaussian noise on H^d, by a product quadrature.

    The footpoint is `apart` from the mean. The noise is σ·z along the geodesic between them and
    σ·χ_{d−1} across; the hyperbolic law of cosines gives the distance.
    """
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    across = sigma * stats.chi(d - 1).ppf((np.arange(4000) + 0.5) / 4000)
    along = apart + sigma * z[:, None]
    r = np.hypot(along, across)
    bend = np.sinh(r) * np.sinh(apart) * across**2 / (r * (r + along)) / 2
    error = 2 * np.arcsinh(np.sqrt(np.sinh((r - apart) / 2) ** 2 + bend))
    return float((weight[:, None] * error).sum() / weight.sum() / 4000)


def fisher_root(log_density: Callable[[float], float], slope: Callable[[float], float]) -> float:
    """Return the root of ∫(f′/f)²·f for an even density on the line."""
    mass, squared = (
        integrate.quad(lambda x, p=p: slope(x) ** p * math.exp(log_density(x)), 0, 30)[0]
        for p in (0, 2)
    )
    return math.sqrt(squared / mass)


def utility() -> tuple[float, float]:
    """Return both utilities of RL over those of the tangent Gaussian, k = 20, ε = 0.1."""
    space = MANIFOLDS["spd-log-euclidean"](k=20)
    budgets = {"rl": PureDP(0.1), "tangent-gaussian": ApproxDP(0.1, 1e-6)}
    moments = {
        power: [
            MECHANISMS[name]
            .calibrate(budget, sensitivity=0.01, manifold=space)
            .expected_error(power)
            for name, budget in budgets.items()
        ]
        for power in (1, 2)
    }
    first, second = (float(a) / float(b) for a, b in moments.values())  # type: ignore[arg-type]
    return first, second


def laplace_on_sphere(scale: float) -> float:
    """Return the mean error of RL on S² for 100 records within π/8, ε = 1, Δ times `scale`."""
    delta_of_mean = scale * laplace_sensitivity(100, math.pi / 8, 1.0)
    sphere = MANIFOLDS["sphere"](dim=2)
    law = MECHANISMS["rl"].calibrate(PureDP(1.0), sensitivity=delta_of_mean, manifold=sphere)
    return float(law.expected_error() or np.nan)


def over_ours() -> float:
    """Return the error of RL over that of the wrapped Gaussian at μ = 1, d = 15."""
    space = MANIFOLDS["spd-log-euclidean"](k=5)
    laws = (
        MECHANISMS[name].calibrate(GDP(1.0), sensitivity=1.0, manifold=space)
        for name in ("rl", "ewg")
    )
    competitor, own = (float(law.expected_error() or np.nan) for law in laws)
    return competitor / own


def decided_rules() -> tuple[float, float]:
    """Return how many definitions Table 1 has, and of how many the need is computed."""
    (config,) = load_experiments("rao-composition")
    rows = [cell() for key, cell in table_cells(config).items() if key.startswith("1/")]
    known = {row["definition"] for row in rows if np.isfinite(row["attained"])}
    return float(len({row["definition"] for row in rows})), float(len(known))


def laplace_gdp() -> float:
    """Return the least μ of one query of Laplace noise at ε = 1."""
    law = MECHANISMS["ewl"].calibrate(PureDP(1.0), sensitivity=1.0, manifold=LINE)
    return attained(one_loss(law.noise, law.sigma), GDP(1.0))  # type: ignore[attr-defined]


def moves() -> tuple[float, float]:
    """Return what is printed, and how far the mean of ten moves, one of e replaced by 1/e."""
    space = MANIFOLDS["spd-log-euclidean"](k=1)
    records = np.full((10, 1, 1), math.e)
    before = space.exp(space.origin, space.log(space.origin, records).mean(axis=0))
    records[0] = 1 / math.e
    after = space.exp(space.origin, space.log(space.origin, records).mean(axis=0))
    return 2 * (math.e - 1) / 10, float(np.abs(after - before)[0, 0])


def squared_utility() -> tuple[float, float]:
    """Return what Theorem 4 prints, and E ρ² of the classical mechanism, r = 1, n = 100, d = 3."""
    law = TANGENT_GAUSSIAN.calibrate(
        ApproxDP(0.5, 1e-6),
        sensitivity=2 / 100,
        manifold=MANIFOLDS["spd-log-euclidean"](k=2),
        analytic=False,
    )
    return 4 * math.log(1.25e6) * 3 / (100 * 0.5) ** 2, float(law.expected_error(2) or np.nan)


def bent() -> tuple[float, float]:
    """Return how far the printed exponential leads on the sphere of κ = 4, and its ‖v‖ = 0.5."""
    pole, east = np.array([0.5, 0, 0]), np.array([0, 0.5, 0])  # east is v
    led = math.cos(0.5) * pole + 0.5 * math.sin(0.5) * east / 0.5
    return math.acos(4 * float(led @ pole)) / 2, float(np.linalg.norm(east))


def shape_logarithms() -> tuple[float, float]:
    """Return the printed logarithm of a shape at distance 1, and the length of ours."""
    shapes = MANIFOLDS["kendall"](landmarks=5)
    x = shapes.origin
    y = np.exp(0.3j) * shapes.exp(x, np.eye(shapes.dim)[0])
    theta = math.acos(min(1.0, abs(np.vdot(x, y))))
    printed = theta * float(np.linalg.norm(y - x * np.vdot(x, y)))
    return printed, float(np.linalg.norm(shapes.log(x, y)))


def radial_ratio() -> tuple[float, float]:
    """Return the printed bound of Theorem 3 in d = 3, and the ratio of its integrals in R³."""
    top = integrate.quad(lambda r: r**4 * math.exp(-0.8 * r), 0, 200)[0]
    low = integrate.quad(lambda r: r**2 * math.exp(-1.2 * r), 0, 200)[0]
    plain = [integrate.quad(lambda z, p=p: z**p * math.exp(-z), 0, 200)[0] for p in (4, 2)]
    return 1.2 / 0.8**3 * plain[0] / plain[1], top / low


def lemma_mass() -> tuple[float, float]:
    """Return the integrals of both functions over R^15, σ = 0.25, in polar coordinates."""
    sphere = 2 * math.pi**7.5 / math.gamma(7.5)
    masses = [
        integrate.quad(lambda r, s=s: r**14 * math.exp(-r * r / 2 / s), 0, 40, limit=400)[0]
        for s in (0.25, 0.25**2)
    ]
    first, second = (sphere * mass / (math.sqrt(2 * math.pi) * 0.25) ** 15 for mass in masses)
    return first, second


SHIFTED = math.sqrt(math.pi / 2)
RECOMPUTED: dict[str, Callable[[], tuple[float, float]]] = {
    "analytic-sign": lambda: (delta(0.1, 5.0, sign=1.0), delta(0.1, 5.0)),
    "two-epsilon": lambda: (delta(2.0, 0.5), delta(2.0, 0.25)),
    "half-space": lambda: (1 - float(phi(-2 + 0.25)), float(phi(-2 + 0.25))),
    "laguerre": lambda: tuple(  # type: ignore[return-value]
        0.01 * SHIFTED * laguerre(15, -0.5 / square) for square in (1.0, 1e-4)
    ),
    "utility-bound": lambda: tuple(  # type: ignore[return-value]
        0.1 * SHIFTED * laguerre(10, -50.0 / square) + 10 for square in (1.0, 1e-2)
    ),
    "perfect-footpoint": lambda: (SHIFTED, noise_length(15)),
    "lemma-exponent": lemma_mass,
    "curvature-factor": lambda: (math.sin(1.0), math.sinh(1.0)),
    "tangent-sign": lambda: (delta(0.3, 1 / 0.6, sign=1.0), delta(0.3, 1 / 0.6)),
    "utility-constant": squared_utility,
    "centred-pixels": lambda: (0.0, (0 - np.mean([0, 1])) ** 2),
    "gray-and-colour": lambda: (1.0, float(DATASETS["pathmnist"].channels)),
    "fashion-colour": lambda: (3.0, float(DATASETS["fashionmnist"].channels)),
    "extrinsic-sensitivity": moves,
    "tail-bound": lambda: (math.exp(-(0.3**2) / 2) / math.pi, float(phi(-0.3))),
    "log-gaussian-density": lambda: (
        math.log(2 / 1.999999),
        math.log(2 / 1.999999) / (2 - 1.999999),
    ),
    "curve-length": lambda: tuple(  # type: ignore[return-value]
        integrate.quad(lambda t, p=p: 4.0**p, 0, 1)[0] for p in (0.5, 1.0)
    ),
    "sphere-exponential": bent,
    "shape-logarithm": shape_logarithms,
    "utility-dimension": radial_ratio,
    "generalized-gaussian": lambda: (
        fisher_root(lambda x: -(x**4) / 2, lambda x: 4 * x**3 / 2),
        fisher_root(lambda x: -((x / 2) ** 4), lambda x: 4 * (x / 2) ** 3 / 2),
    ),
    "rao-distance": lambda: (2 * math.acos(math.exp(-1 / 8)), 1.0),
    "post-processing": lambda: (
        math.exp(-1 / 8),
        2 * math.sqrt(float(phi(0.5) * phi(-0.5))),
    ),
    "rao-and-gdp": lambda: (1.0, laplace_gdp()),
    "our-bar": lambda: (1.5, analytic_mu(0.1, 1e-7) / analytic_mu(0.1, 1e-9)),
    "our-utility": utility,
    "our-laplace": lambda: (laplace_on_sphere(2.0), laplace_on_sphere(1.0)),
    "our-baseline": lambda: (over_ours(), 1.0),
    "our-rules": decided_rules,
    "our-expectation": lambda: (0.375 * 6, float(spectral_moment(3, 0.375) or np.nan)),
    "our-footpoint": lambda: (
        laplace_epsilon(GDP(0.5)) / laplace_epsilon(split(GDP(0.5), (0.1, 0.9))[1]),
        1.0,
    ),
}
"""Id of an erratum → what the printed text makes of its counterexample, and what is true."""


def test_every_erratum_is_computed() -> None:
    """None is without a computation, and no computation is of none."""
    assert [item.id for item in load_errata().erratum] == [*RECOMPUTED]


@pytest.mark.parametrize("name", RECOMPUTED)
def test_both_numbers_are_those_of_the_file(name: str) -> None:
    """Each number of the file is what its setting gives, to the digits that are printed there."""
    item = next(item for item in load_errata().erratum if item.id == name)
    computed = RECOMPUTED[name]()
    stated = item.as_printed, item.as_right
    assert computed == pytest.approx(stated, rel=1e-4, abs=1e-12)
    assert stated[0] != pytest.approx(stated[1], rel=0.01)
    assert pkgutil.resolve_name(item.used) is not None


def test_the_reasons_hold_where_the_code_is_asked() -> None:
    """What the right texts say is what the pipeline computes, in the numbers of their reasons."""
    assert curved_error(10, 10.0, 0.1) == pytest.approx(11.489, abs=1e-3)  # above what is printed
    printed, right = RECOMPUTED["utility-bound"]()
    assert printed < curved_error(10, 10.0, 0.1) < right
    scale = misprinted_sigma(ApproxDP(1.0, 1e-6), 1.0)  # the first σ tried passes
    assert scale < MECHANISMS["ewg"].calibrate(
        ApproxDP(1.0, 1e-6), sensitivity=1.0, manifold=LINE
    ).sigma / 10  # fmt: skip
    assert rao_factor(4.0) / 2 == pytest.approx(1.0070, abs=5e-5)
    assert convert(PureDP(1.0), GDP).mu == pytest.approx(-2 * special.ndtri(1 / (1 + math.e)))
    assert convert(PureDP(1.0), GDP).mu == pytest.approx(1.232, abs=5e-4)
    assert laplace_gdp() == pytest.approx(-2 * special.ndtri(math.exp(-0.5) / 2), rel=1e-3)
    assert 1 / 0.3 / math.sqrt(2 * math.pi) * math.exp(-0.045) == pytest.approx(1.271, abs=5e-4)
    sphere = MANIFOLDS["sphere"](dim=2)
    pole, step = sphere.origin, np.array([0.5, 0.0])
    assert sphere.dist(pole, sphere.exp(pole, step)) == pytest.approx(0.5)
    shapes = MANIFOLDS["kendall"](landmarks=5)
    away = shapes.exp(shapes.origin, np.eye(shapes.dim)[0])
    assert np.linalg.norm(shapes.log(shapes.origin, away)) == pytest.approx(1.0)


def test_the_page_has_all_of_them_and_the_index_leads_there(tmp_path: Path) -> None:
    """An index is built with the page: every place, both numbers, a link there and one back."""
    for name in ("first", "second"):
        write_sample(tmp_path, experiment=name, budgets=2, images=False)
    index = build_report(tmp_path).read_text(encoding="utf-8")
    page = (tmp_path / "report-pages" / "errata.html").read_text(encoding="utf-8")
    ours = sum(item.paper == OUR_OWN for item in load_errata().erratum)
    assert 'href="report-pages/errata.html">Errata</a>' in index
    assert f"{len(RECOMPUTED) - ours} places where the papers print" in index
    assert 'href="../report.html">Index<' in page
    assert "default-src 'none'" in page
    words = unescape(re.sub("<[^>]+>", "", page))
    for item in load_errata().erratum:
        assert f'id="{item.id}"' in page
        for text in (item.place, item.printed, item.right, item.why, item.counterexample):
            assert " ".join(text.split()) in " ".join(words.replace("\u00a0", " ").split())
    cited = set(re.findall(r"@\w+\{(\w+),", words))
    assert cited >= load_errata().papers.keys() - {OUR_OWN} > set()
    assert cited <= set(references())


def test_an_erratum_of_no_paper_is_refused() -> None:
    """Each is of a paper with a title."""
    known = load_errata()
    fields = known.model_dump()
    fields["erratum"][0]["paper"] = "soto2023"
    with pytest.raises(ConfigError, match="did you mean"):
        parse(Errata, fields, "errata.toml")


def test_titles_are_those_of_the_experiments() -> None:
    """A paper is called alike on the page and in the experiments that are of it."""
    titles = {title for key, title in load_errata().papers.items() if key != OUR_OWN}
    of = {config.paper.partition("”")[0].strip("“") for config in load_experiments("all")} - {""}
    assert titles == of
