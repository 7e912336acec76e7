"""Shares of noise: each hospital adds its own to whole sums, and only the total is opened.

    sums of this hospital ─► + discrete Gaussian ─► + masks ─► words ─► total of all, noised

**Noise.** Sums are whole numbers of steps of 2⁻⁴⁰ (``mean/sums.py``). A step of a mean whose noise
is to be σ for whoever knows the noise of t of m hospitals has in each of them a discrete Gaussian
of parameter s = σ·2⁴⁰/√(m − t), rounded up. The noise that t hospitals do not know is the sum of
k = m − t of them. It is within τ = 10·Σ_{j<k} exp(−2π²s²·j/(j + 1)) of one discrete Gaussian of
parameter √k·s (Kairouz, Liu and Steinke, "The distributed discrete Gaussian mechanism", 2021,
Theorem 1), so the total is ρ-zCDP with

    ρ = Δ²/(2·k·s²) + ¼·τ·d

for d whole numbers that a record moves by Δ at most, all in steps (their Proposition 13). With
s ≥ 2³⁰ it is τ < 10·k·exp(−10¹⁹), far below what doubles hold; ¼·τ·d counts as the least of them.

**Sensitivity.** Δ of a step is that of ``mean/sensitivity.py``. There one rounding of each data set
is counted, by at most u times N; but others state N, and may lie. The one hospital whose record is
replaced rounds its own sum, of at most 2²² records: Δ grows by 2⁻³⁰, whatever N is. So a hospital
need not refuse an N below what it has, and no N tells how many records it has. Products of records
have more digits than a step: they are rounded to steps, in that hospital by at most half a step in
each of d numbers, on each of the two data sets. A record that changes its class touches the sums of
two. So Δ grows by √(2·d)·2⁻⁴⁰ at most. σ is raised in the same ratio, so the budget is what the
terms say.

**Its law.** The noise that t hospitals do not know is within d/(24·k·s²) in total variation of real
noise that is rounded to steps (``mechanisms/noise.py``), below d·2⁻⁶⁴ for s ≥ 2³⁰. So it keeps
μ-GDP but for a probability below 10⁻¹², unless a record touches 5 million numbers or more.

**Known noise.** A total has the noise of all m shares, √(m/(m − t)) times as wide as what is
promised counts. So the engine of means is given the budget of a total, whose noise it then states
(`JointNoise.budget_of_total`): regions and tests read that, and ρ counts m − t shares alone. An
attacker who knows k > t of them is left √((m − k)/(m − t)) of that noise.

**Lies.** Whatever was opened before, and whatever parameters the leading hospital sends, a record
moves the sums of a step by at most Δ (`covdp.mean.clip.fault_of`), and composition is adaptive: a
hospital that tells other words chooses other functions of the same bounded vectors. N is signed by
all and stays the same in all attempts, so each has the same σ and shares of the budget. A share is
drawn once a step, and the ledger knows it before it leaves (``account.py``). What a liar can do is
spoil the result, or end the study.

**Public** are the terms, N, how many numbers a step has, and when it is done. Of two hospitals,
each learns by N how many records the other has.

**No word overflows.** A total is at most N·2⁴⁰/√2, and its noise below 40 of its deviations but
with probability 2⁻¹¹⁰⁰: `check_room` refuses what would not fit into 63 bits. Discrete Gaussians
that are so far out are not drawn again: 64 bits wrap, which spoils the total and no privacy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.descriptors.bounds import ROUNDOFF
from covdp.errors import ConfigError, PrivacyError
from covdp.mean.sums import PER_UNIT
from covdp.mechanisms.noise import NoisyVector, integer_gaussian
from covdp.privacy import Budget
from covdp.privacy.composition import scaled
from covdp.privacy.rounding import round_down

Words = NDArray[np.uint64]
MOST_RECORDS = 1 << 22  # of all hospitals together
LEAST_SCALE = 2.0**30  # of a share, in steps: τ is nothing
FAR_OUT = 40.0  # deviations of the noise that a total has room for


class JointError(ConfigError, PrivacyError):
    """Fault of the terms, of other hospitals or of the server: its words are public."""


class Hospitals(Protocol):
    """Way to the other hospitals, which all do the same steps in the same order; here to none."""

    def opened(self, step: int, share: "Share") -> Words:
        """Return the total of what all hospitals have in a step; a share is drawn at most once.

        Parameters
        ----------
        step : int
            Number of the step.
        share : Share
            Sums of this hospital, which get their noise where it has none yet.
        """
        return share.draw()

    def agreed(self, step: int, parameters: Mapping[str, NDArray[Any]]) -> Mapping[str, Any]:
        """Return the parameters of a step as the leading hospital has them.

        Parameters
        ----------
        step : int
            Number of the step.
        parameters : mapping of str to array
            Parameters as they were computed here.
        """
        return parameters


@dataclass(frozen=True)
class Share:
    """Sums of one hospital in one step, and the noise that it adds.

    Attributes
    ----------
    whole : array of int64, shape (d,)
        Sums, in steps of the lattice; private.
    scale : float
        Parameter of the discrete Gaussian.
    """

    whole: NDArray[np.int64] = field(repr=False)
    scale: float

    def draw(self) -> Words:
        """Return the sums with noise, mod 2⁶⁴: drawn once a step, and journaled before masks."""
        return integer_gaussian(self.whole, self.scale).view(np.uint64)


@dataclass
class JointNoise:
    """Source of noise whose call is collective: `CollectiveNoise` of one of m hospitals.

    Attributes
    ----------
    hospitals, colluders : int
        m, and t: the number of them whose noise an attacker may know.
    total : int
        N: number of records of all hospitals together.
    meeting : Hospitals
        Way to the others.
    step : int
        Number of steps that were opened.
    rng : None
        None: the entropy is the operating system's.
    """

    hospitals: int
    colluders: int
    total: int
    meeting: Hospitals
    step: int = 0
    rng: None = None

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Return the opened total; σ is the noise of the total, with that of all hospitals.

        Parameters
        ----------
        vector : array, shape (d,)
            Sums of this hospital.
        sigma : float
            Standard deviation of the noise of the total.
        sensitivity : float
            Δ of the vector as it was computed.
        """
        scale, rho = share_of(sigma, sensitivity, len(vector), self.hospitals, self.colluders)
        check_room(self.total, scale * math.sqrt(self.hospitals))
        whole = np.rint(np.asarray(vector, np.float64) * PER_UNIT).astype(np.int64)
        self.step += 1
        words = self.meeting.opened(self.step, Share(whole, scale))
        return NoisyVector(words.view(np.int64) / PER_UNIT, rho)

    def agree(self, parameters: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return the parameters of the next step as the leading hospital has them.

        Parameters
        ----------
        parameters : mapping of str to array
            Parameters as they were computed here.
        """
        return self.meeting.agreed(self.step + 1, parameters)

    def budget_of_total(self, promise: Budget) -> Budget:
        """Return the budget that all noise of a total would keep, of which t shares may be known.

        Parameters
        ----------
        promise : Budget
            Budget that the noise of the m − t others keeps.
        """
        hidden = Fraction(self.hospitals - self.colluders, self.hospitals)
        return scaled(promise, hidden, round_down)


class Rehearsal(Hospitals):
    """Hospitals of one hospital by itself: what fails in it is public, of black images."""


def share_of(
    sigma: float, sensitivity: float, dim: int, hospitals: int, colluders: int
) -> tuple[float, float]:
    """Return the parameter of a hospital's discrete Gaussian, in steps, and the certified ρ.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise of the total, of all m hospitals.
    sensitivity : float
        Δ of the sums as they were computed.
    dim : int
        Number of sums d.
    hospitals, colluders : int
        Numbers m and t.

    Raises
    ------
    JointError
        When the noise is so small that sums of discrete Gaussians are not Gaussian enough.
    """
    moved = sensitivity + math.sqrt(2.0 * dim) / PER_UNIT + 2.0 * MOST_RECORDS * ROUNDOFF
    scale = sigma * PER_UNIT / math.sqrt(hospitals) * (moved / sensitivity) * (1.0 + 1e-12)
    if not LEAST_SCALE <= scale < 2.0**62:
        raise JointError(f"noise of {sigma:g} in a sum cannot be shared; ask for a usual budget")
    rho = (moved * PER_UNIT / scale) ** 2 / (2.0 * (hospitals - colluders))
    return scale, rho * (1.0 + 1e-15) + 5e-324  # for τ, which no double can hold


def check_room(total: int, noise: float) -> None:
    """Raise `JointError` where a total with its noise might not fit into a word.

    Parameters
    ----------
    total : int
        N.
    noise : float
        Standard deviation of the noise of the total, in steps.
    """
    if total > MOST_RECORDS or total * PER_UNIT / math.sqrt(2.0) + FAR_OUT * noise >= 2.0**63:
        most = f"at most {MOST_RECORDS:,} take part, with a usual budget"
        raise JointError(f"{total:,} records with this noise do not fit into 64 bits; {most}")
