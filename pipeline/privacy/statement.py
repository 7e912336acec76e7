"""The statement of privacy that goes with every release and report.

It answers what NIST SP 800-226 ("Guidelines for evaluating differential privacy guarantees", 2025)
asks of a claim: unit and neighbours, definition and parameters, composition, trust model, what is
public, and what is not covered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import PrivacyError
from pipeline.privacy.advantage import success
from pipeline.privacy.composition import for_group
from pipeline.privacy.conversion import convert
from pipeline.privacy.definitions import KLDP, MCDP, ApproxDP, Budget, RaoDP, check_count

_COMPOSITION = (
    "classes have public labels and disjoint images, so a run costs the dearest class; "
    "releases from the same images add up"
)
_TIMING = "side channels: the time a release takes, memory and disk of the machine it runs on"
_FLOATS = (
    "floating point: noise is drawn in double precision, whose low bits can reveal values; "
    "figures hold for ideal real-valued noise; not fit for release"
)
_ACCESS = "people with access to the images themselves or to the machine"

_MEANINGS = {
    "pure": "no outcome is more than e^ε times as likely with one data set as with its neighbour",
    "approx": "but for a probability of δ, no outcome is more than e^ε times as likely with one "
    "data set as with its neighbour",
    "gdp": "μ-Gaussian differential privacy: neighbours are at least as hard to tell apart as one "
    "draw from a bell curve of width 1 is from one of the same curve moved by μ",
    "rdp": "Rényi differential privacy: the Rényi divergence of order α of two neighbours' results "
    "is at most ε",
    "zcdp": "zero-concentrated differential privacy: the Rényi divergence of every order α > 1 of "
    "two neighbours' results is at most ρ·α",
}
"""What each certified definition says, by its name."""


@dataclass(frozen=True)
class PrivacyStatement:
    """A claim of privacy in words and numbers; every field is public."""

    budget: Budget
    unit: str
    adjacency: str
    plainly: str
    equivalent: ApproxDP
    composition: str
    trust_model: str
    public: tuple[str, ...]
    n_by_class: tuple[tuple[str, int], ...]
    group: str
    not_covered: tuple[str, ...]

    def items(self) -> tuple[tuple[str, str], ...]:
        """Return (title, text) pairs, in reading order; ``dict`` of them is JSON."""
        counts = ", ".join(f"{name}: {count}" for name, count in self.n_by_class)
        return (
            ("Unit of privacy", self.unit),
            ("Neighbouring data sets", self.adjacency),
            ("Guarantee", str(self.budget)),
            ("In plain words", self.plainly),
            ("Definition", _MEANINGS[self.budget.name]),
            ("Implies", f"{self.equivalent}: {_MEANINGS['approx']}"),
            ("Composition", self.composition),
            ("Trust model", self.trust_model),
            ("Public", "; ".join(self.public)),
            ("Images per class (public)", counts),
            ("Several images of one person", self.group),
            ("Not covered", "; ".join(self.not_covered)),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the statement as lines "title: text"."""
        return tuple(f"{title}: {text}" for title, text in self.items())


def privacy_statement(
    budget: Budget,
    *,
    n_by_class: Mapping[str, int],
    unit: str = "image",
    delta: float | None = None,
    composition: str = _COMPOSITION,
    group: int | None = None,
    public: Sequence[str] = (),
    hardened: bool = False,
    not_covered: Sequence[str] = (),
) -> PrivacyStatement:
    """Return the statement for what was spent.

    Parameters
    ----------
    budget : Budget
        The total cost, in a certified definition.
    n_by_class : mapping of str to int
        Public number of images of each class.
    unit : str
        What one record is.
    delta : float, optional
        δ of the equivalent (ε, δ); the smaller of 1e-5 and 1/(10 n) when left out, n all images.
    composition : str
        How the total came about.
    group : int, optional
        The most images one person may have, where that is known.
    public : sequence of str
        What else is public: descriptor, domain, footpoint, mechanism, …
    hardened : bool
        Whether the noise was drawn exactly on a lattice with the system's entropy.
    not_covered : sequence of str
        What else this guarantee does not cover.

    Returns
    -------
    PrivacyStatement

    Raises
    ------
    PrivacyError
        For Rao, KL and mean concentrated DP, which certify no (ε, δ); for no class or counts that
        are not positive; for a group that `for_group` refuses.
    """
    if isinstance(budget, RaoDP | KLDP | MCDP):
        raise PrivacyError(
            f"a statement needs a certified definition, found {budget}; "
            "state the release in GDP and show the label beside it"
        )
    counts = tuple((name, check_count(n, f"images of {name}")) for name, n in n_by_class.items())
    if not counts:
        raise PrivacyError("a statement needs the size of every class, found none; give n_by_class")
    uncovered = (_TIMING, *not_covered, _ACCESS)
    if not hardened:
        uncovered = (_FLOATS, *uncovered)
    return PrivacyStatement(
        budget=budget,
        unit=f"one {unit}; a person with several is protected by the group rule below",
        adjacency=(
            f"replace one: one {unit} becomes any other {unit} of the same class; "
            f"the number of {unit}s and every label stay and are public"
        ),
        plainly=plainly(budget, unit=unit)
        + ("" if hardened else "; on paper, for noise of real numbers"),
        equivalent=_equivalent(budget, delta, sum(n for _, n in counts)),
        composition=composition,
        trust_model=f"central: whoever runs this sees the {unit}s, readers see only the release",
        public=(f"the label of every {unit}", "the code and its settings", *public),
        n_by_class=counts,
        group=_group(budget, unit, group),
        not_covered=uncovered,
    )


def plainly(
    budget: Budget, *, unit: str = "image", group: int = 1, seen: str = "the result"
) -> str:
    """Return what `budget` means to one person, for readers who know none of the terms.

    Parameters
    ----------
    budget : Budget
        What protects the records in question, all of them together.
    unit : str
        What one record is.
    group : int
        How many records one person has at most; they are in question together.
    seen : str
        What is seen.
    """
    one, other = f"one particular {unit} was used", "another in its place"
    if group > 1:
        one = f"the {unit}s of one particular person, at most {group}, were used"
        other = "others in their place"
    return (
        f"whoever sees {seen} and knows all other {unit}s can tell whether {one}, or {other}, "
        f"with at most {success(budget)} % success; guessing has 50 %"
    )


def _equivalent(budget: Budget, delta: float | None, n: int) -> ApproxDP:
    """Return the (ε, δ) that `budget` implies."""
    if isinstance(budget, ApproxDP):
        return budget
    return convert(budget, ApproxDP, delta=min(1e-5, 1 / (10 * n)) if delta is None else delta)


def _group(budget: Budget, unit: str, group: int | None) -> str:
    """Return what holds for a person with several records, in words."""
    if group is None:
        rules = {
            "pure": "ε becomes g·ε",
            "approx": "ε becomes g·ε and δ becomes δ·(e^(g·ε) − 1)/(e^ε − 1)",
            "gdp": "μ becomes g·μ",
            "zcdp": "ρ becomes g²·ρ",
        }
        rule = rules.get(budget.name, "no simple rule")
        return f"not limited; for a person with at most g {unit}s {rule}"
    together = for_group(budget, group)
    return (
        f"at most {group} {unit}s a person: {together} for all of them together, which the best "
        f"test tells with at most {success(together)} % success"
    )
