"""The statement of privacy that goes with every release and report.

It answers what NIST SP 800-226 ("Guidelines for evaluating differential privacy guarantees", 2025)
asks of a claim: privacy unit and neighbours, definition and parameters, composition, trust model,
what is public, and what is not covered.

**What a budget means to one person**: how well the best test can tell whether an image was used.
The test knows everything but one image: the mechanism, all other images, two candidates for the one
in question. It sees what was released and says which of the two it was. At even odds it is right
with probability ½ + TV(P, Q)/2, where TV = sup_S |P(S) − Q(S)| and P, Q are the laws of the output
with either candidate; guessing is right with ½. If the other candidate is drawn at random, Q is a
mixture, and TV is at most the largest over its parts. Figures are rounded up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pipeline.errors import PrivacyError
from pipeline.privacy.composition import for_group
from pipeline.privacy.conversion import convert, pure_renyi
from pipeline.privacy.definitions import (
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
    check_count,
)
from pipeline.privacy.profiles import delta_of
from pipeline.privacy.rounding import GUARD, least


def advantage(budget: Budget) -> float:
    """Return the largest TV(P, Q) that `budget` allows: P(success) = ½ + TV/2 at even odds.

    =====================  =============================================================
    ε-DP                   tanh(ε/2)
    (ε, δ)-DP              δ + (1 − δ)·tanh(ε/2)
    μ-GDP                  2Φ(μ/2) − 1
    ρ-zCDP                 tanh(ε/2) with ε·tanh(ε/2) = ρ; at most √(ρ/2)
    (α, ε_α)-Rényi DP      tanh(ε/2) with ln[cosh((α − ½)ε)/cosh(ε/2)]/(α − 1) = ε_α
    =====================  =============================================================

    The first three are the privacy profile at ε = 0, since TV is the least δ of (0, δ)-DP. Each is
    the least possible.

    *zCDP and Rényi DP.* Let a test tell v = p − q, accepting with probability p under P and q under
    Q. By data processing D_α(Ber(p)‖Ber(q)) is bounded as D_α(P‖Q) is; as neighbours are symmetric,
    so is D_α(Ber(q)‖Ber(p)) = D_α(Ber(1 − q)‖Ber(1 − p)). D_α is jointly quasi-convex, hence
    bounded as well halfway between the two pairs, at Ber((1 + v)/2) and Ber((1 − v)/2). This is
    randomised response with e^ε = (1 + v)/(1 − v), so v = tanh(ε/2). It attains the bound, and is
    itself an instance of it. For zCDP all orders bind at once: the strictest is the limit α → 1, as
    shown at `calibration.pure_zcdp`, where D_1 = ε·tanh(ε/2). From tanh(ε/2) ≤ ε/2 it follows that
    ρ ≥ 2v², which is Pinsker's inequality.

    Raises
    ------
    PrivacyError
        For Rao, KL and mean concentrated DP, which are labels.

    References
    ----------
    Dong, Roth and Su (2019), section 2. Kairouz, Oh and Viswanath (2015). van Erven and Harremoës,
    "Rényi divergence and Kullback-Leibler divergence" (2014), Theorems 9 and 13.
    """
    match budget:
        case PureDP() | ApproxDP() | GDP():
            return delta_of(budget, 0.0)
        case ZCDP(rho):
            floor = rho * (1 + GUARD)
            level = least(lambda x: x * math.tanh(x / 2) >= floor, 1.0)
        case RDP(alpha, divergence):
            floor = divergence * (1 + 3 * GUARD)  # `pure_renyi` has one in it
            level = least(lambda x: pure_renyi(x, alpha) >= floor, 1.0)
        case _:
            raise PrivacyError(
                f"{budget} bounds no test: it is a label for tables; "
                "for Gaussian noise state the same release in GDP"
            )
    return min(1.0, math.tanh(level / 2) * (1 + GUARD))


def certified(budget: Budget) -> Budget:
    """Return what noise on a lattice is certified for at `budget`, for `advantage` and `success`.

    Of μ-GDP that is (μ²/2)-zCDP: μ itself holds for noise of real numbers, and for a lattice up to
    the ratio of its step to σ, which no map certifies (``noise.py``). Others are as they are.
    """
    return convert(budget, ZCDP) if isinstance(budget, GDP) else budget


def success(budget: Budget) -> str:
    """Return how often the best test is right, at even odds, in per cent: one decimal, rounded up.

    "59.9" of 0.5-GDP, say, and "62.4" of what is certified at it; guessing gives 50.
    """
    return f"{math.ceil(500 * (1 + Fraction(advantage(budget)))) / 10:.1f}"


def best_test(budget: Budget, hardened: bool) -> str:
    """Return `success` of what hardened noise is certified for, of floats what holds on paper."""
    return success(certified(budget) if hardened else budget)


def plainly(
    budget: Budget,
    *,
    unit: str = "image",
    group: int | None = 1,
    seen: str = "the result",
    hardened: bool = True,
) -> str:
    """Return what `budget` means to one person, for readers who know none of the terms.

    Parameters
    ----------
    budget : Budget
        What protects the records in question, all of them together.
    unit : str
        What one record is.
    group : int or None
        How many records one person has at most, None for any number; they are in question together.
    seen : str
        What the attacker knows of what was released.
    hardened : bool
        As in `best_test`.
    """
    one, other = f"one particular {unit} was used", "another in its place"
    if group != 1:
        most = "" if group is None else f", at most {group},"
        one = f"the {unit}s of one particular person{most} were used"
        other = "others in their place"
    return (
        f"an attacker who knows {seen} and all other {unit}s must decide whether {one}, or "
        f"{other}; this has at most {best_test(budget, hardened)} % success, guessing 50 %"
    )


_TIMING = "side channels: the time a release takes, memory and disk of the machine it runs on"
_FLOATS = (
    "floating point: noise is drawn in double precision, whose low bits can reveal values; "
    "figures hold for ideal real-valued noise; not fit for release"
)
_ACCESS = "people with access to the images themselves or to the machine"
_NAMES = (
    "who is who: a person is all images of one identifier, so one with several identifiers counts "
    "as several persons"
)

PATIENTS = ("image", "person")
"""Records behind which a patient may stand."""
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
    record: str
    exact: str
    unit: str
    adjacency: str
    plainly: str
    equivalent: ApproxDP
    composition: str
    trust_model: str
    public: tuple[str, ...]
    n_by_class: tuple[tuple[str, int], ...]
    total: int | None
    added: str
    group: str
    not_covered: tuple[str, ...]

    def items(self) -> tuple[tuple[str, str], ...]:
        """Return (title, text) pairs, in reading order; ``dict`` of them is JSON."""
        sizes = ", ".join(f"{name}: {count}" for name, count in self.n_by_class)
        title, counts = f"{self.record.capitalize()}s per class (exact)", sizes
        if self.total is not None:
            title = f"{self.record.capitalize()}s of all classes together (exact)"
            counts = f"{self.total}"
        added = (("One more or one fewer", self.added),) if self.added else ()
        return (
            ("Exact, not protected", self.exact),
            ("Unit of privacy", self.unit),
            ("Neighbouring data sets", self.adjacency),
            ("Guarantee", str(self.budget)),
            ("In plain words", self.plainly),
            ("Definition", _MEANINGS[self.budget.name]),
            ("Implies", f"{self.equivalent}: {_MEANINGS['approx']}"),
            *added,
            ("Composition", self.composition),
            ("Trust model", self.trust_model),
            ("Assumed to be known, not protected", "; ".join(self.public)),
            (title, counts),
            ("Several images of one person", self.group),
            ("Not covered", "; ".join(self.not_covered)),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the statement as text, "title: text" row by row."""
        return tuple(f"{title}: {text}" for title, text in self.items())


def privacy_statement(
    budget: Budget,
    *,
    n_by_class: Mapping[str, int],
    unit: str = "image",
    classes_per_person: int | None = None,
    delta: float | None = None,
    composition: str | None = None,
    group: int | None = None,
    public: Sequence[str] = (),
    hardened: bool = False,
    not_covered: Sequence[str] = (),
    seen: str = "the result",
    so_far: bool = False,
    total: int | None = None,
) -> PrivacyStatement:
    """Return the statement for what was spent.

    Parameters
    ----------
    budget : Budget
        The total cost for one record, in a certified definition; for a person in several classes
        that of all of them.
    n_by_class : mapping of str to int
        Public number of records of each class.
    unit : str
        What one record is, where it is not all that one person has.
    classes_per_person : int, optional
        Given where one person is one record of a class: in how many classes a person may count.
    delta : float, optional
        δ of the equivalent (ε, δ); the smaller of 1e-5 and 1/(10 n) when left out, n all images.
    composition : str, optional
        How the total came about, in place of what holds for releases.
    group : int, optional
        The most images one person may have, where that is known.
    public : sequence of str
        What else is assumed to be known: descriptor, domain, footpoint, mechanism, …
    hardened : bool
        Whether the noise was drawn exactly on a lattice with the system's entropy.
    not_covered : sequence of str
        What else this guarantee does not cover.
    seen : str
        What is known of it, as in `plainly`.
    so_far : bool
        Whether records are still to come, so that a class may have none yet.
    total : int, optional
        Where it is secret in which class a record is, the public number of all of them; then
        `n_by_class` is empty.

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
    record = unit if classes_per_person is None else "person"
    counts = tuple(
        (name, n if so_far and n == 0 else check_count(n, f"{record}s of {name}"))
        for name, n in n_by_class.items()
    )
    if not counts and total is None:
        raise PrivacyError("a statement needs the size of every class, found none; give n_by_class")
    if classes_per_person is None:
        words = _about_records(record, budget, group, hardened)
    else:
        words = _about_persons(check_count(classes_per_person, "classes_per_person"))
    words = words if total is None else _secret_labels(words, record, classes_per_person)
    floats = () if hardened else (_FLOATS,)
    return PrivacyStatement(
        budget=budget,
        record=record,
        exact=_exact(record, so_far) if total is None else _exact_total(record, so_far),
        unit=words.unit,
        adjacency=words.adjacency,
        plainly=plainly(
            budget, unit=words.seen, group=words.group_size, seen=seen, hardened=hardened
        )
        + ("" if hardened else "; on paper, for noise of real numbers")
        + words.of_class,
        equivalent=equivalent(budget, delta, total or sum(n for _, n in counts)),
        composition=composition or f"{words.classes}; releases about the same {record}s add up",
        trust_model=f"central: whoever runs this sees the {words.seen}s, readers see only the "
        "release",
        public=(*words.public, "the code and its settings", *public),
        n_by_class=counts,
        total=total,
        added="" if total is None else _added(budget, record, hardened),
        group=words.group,
        not_covered=(*floats, _TIMING, *words.not_covered, *not_covered, _ACCESS),
    )


class _Words(NamedTuple):
    """What is said of a record, whatever was spent; `group_size` as in `plainly`."""

    unit: str
    adjacency: str
    classes: str
    public: tuple[str, ...]
    group: str
    seen: str
    group_size: int | None
    not_covered: tuple[str, ...]
    of_class: str = ""


def _exact(record: str, so_far: bool) -> str:
    """Return what stands without noise in a release, and whom that may give away, in words."""
    if record not in PATIENTS:
        return f"how many {record}s each class has"
    when = "came on a night" if so_far else "came between two releases"
    nights = ", and how many of them came on each night, by class and date" if so_far else ""
    return (
        f"how many {record}s each class has{nights}; whoever knows that one patient {when} may "
        "learn from these numbers in which class they are, and so a diagnosis"
    )


def _exact_total(record: str, so_far: bool) -> str:
    """Return what stands without noise where labels are secret, and whom that may give away."""
    nights = ", how many of them came on each night" if so_far else ""
    when = ", and on which night it came" if so_far else ""
    shows = "What the images of that one show" if record == "person" else "What that one shows"
    return (
        f"how many {record}s all classes have together{nights}, and what the classes are called. "
        f"Whoever knows all {record}s but one sees by that number whether there is one more{when}. "
        f"{shows}, and in which class it is, stays protected"
    )


def _secret_labels(words: _Words, record: str, classes_per_person: int | None) -> _Words:
    """Return the words where it is secret in which class a record is."""
    become = f"one {record} becomes any other {record}, of the same class or of any other"
    shows = f"what {_a(record)} shows, in which class it is"
    if record == "person":
        become = "all images of one person become any other images, at least one, of any class"
        shows = "what the images of a person show, in which class they are"
    return words._replace(
        adjacency=f"replace one: {become}. Protected are {shows}, and how many {record}s a class "
        f"has. The number of {record}s of all classes together stays as it is and is not protected",
        classes=_secret_rule(record, classes_per_person),
        public=(),
        of_class=f". {class_sentence(record)}",
    )


def _a(record: str) -> str:
    """Return a record with its article."""
    return f"an {record}" if record[0] in "aeiou" else f"a {record}"


def _secret_rule(record: str, classes_per_person: int | None) -> str:
    """Return how what each class costs adds up where labels are secret."""
    many = classes_per_person or 1
    where = "one class" if many == 1 else f"at most {many} classes"
    cost = "its budget once" if many == 1 else f"what {many} classes cost together"
    return (
        f"{_a(record)} counts in {where}, and the noise covers in which. The sums of all classes "
        f"get their noise together, so a run costs {cost}"
    )


def class_sentence(record: str) -> str:
    """Return in words that the figure of `plainly` holds for a secret class as well."""
    return (
        f"The same figure holds for the class of {_a(record)}: whoever asks in which of two "
        "classes it is succeeds at most as often"
    )


def _added(budget: Budget, record: str, hardened: bool) -> str:
    """Return what holds of the same noise for data sets of which one has one record more.

    Such a record moves the sums by √½ of what one that is replaced may (``mean/release.py``).
    """
    half: Budget | None = None
    match budget:
        case GDP(mu):
            half = GDP(mu * math.sqrt(0.5) * (1.0 + GUARD))
        case ZCDP(rho):
            half = ZCDP(rho * 0.5 * (1.0 + GUARD))
    promise = ""
    if half is not None:
        most = best_test(half, hardened)
        promise = f" at {half}: without that number the best test has at most {most} % success"
    return (
        f"whether {_a(record)} is there at all is not protected from whoever knows all others: the "
        f"exact number of all {record}s tells it. All else that is released protects it{promise}"
    )


def _diagnosis(record: str) -> str:
    """Return what a class may be, and who is taken to know it."""
    if record not in PATIENTS:
        return ""
    return ", such as a diagnosis: it is not published, but an attacker is assumed to know it"


def _about_records(unit: str, budget: Budget, group: int | None, hardened: bool) -> _Words:
    """Return the words where each image, or whatever a record is, stands for itself."""
    return _Words(
        unit=f"one {unit}; a person with several is protected by the group rule below",
        adjacency=f"replace one: one {unit} becomes any other {unit} of the same class; "
        f"the number of {unit}s and every label stay as they are and are not protected",
        classes=classes_rule(unit, None),
        public=(f"the class of every {unit}{_diagnosis(unit)}",),
        group=_group(budget, unit, group, hardened),
        seen=unit,
        group_size=1,
        not_covered=(),
    )


def _about_persons(classes: int) -> _Words:
    """Return the words where one person is one record of a class."""
    return _Words(
        unit="one person: all images of that person together, however many there are",
        adjacency="replace one: all images of one person become any other images, at least one, "
        "in the same classes; the number of persons of each class stays as it is and is not "
        "protected",
        classes=classes_rule("person", classes),
        public=(f"in which classes a person has images{_diagnosis('person')}",),
        group="one record together, their mean; how many there are is not used elsewhere and is "
        "not public",
        seen="image",
        group_size=None,
        not_covered=(_NAMES,),
    )


def classes_rule(unit: str, classes_per_person: int | None) -> str:
    """Return how what each class costs adds up, in words; arguments as in `privacy_statement`."""
    if classes_per_person is None:
        return (
            f"classes have public labels and disjoint {unit}s, so a run costs the most costly class"
        )
    if classes_per_person == 1:
        return (
            "a person counts in one class, the first in the card's order in which they have an "
            "image, and their other images are left out, so a run costs the most costly class"
        )
    return (
        f"a person counts in at most {classes_per_person} classes, the first in the card's order "
        "in which they have an image, and their other images are left out; so a run costs what "
        f"{classes_per_person} classes cost together"
    )


def equivalent(budget: Budget, delta: float | None, n: int) -> ApproxDP:
    """Return the (ε, δ) that `budget` implies; δ as in `privacy_statement`, of n records in all."""
    if isinstance(budget, ApproxDP):
        return budget
    level = min(1e-5, 1 / (10 * max(n, 1))) if delta is None else delta
    return convert(budget, ApproxDP, delta=level)


def _group(budget: Budget, unit: str, group: int | None, hardened: bool) -> str:
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
        f"test tells with at most {best_test(together, hardened)} % success"
    )
