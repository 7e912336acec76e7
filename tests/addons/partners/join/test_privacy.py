"""The promise of joint releases, attacked: transcripts are replayed on neighbouring data.

A replay is given all that was opened and all parameters, so what its sums move by, over the noise
that is not known, is exactly what the transcript tells: no chance is in it but that of the first
run, and the bound holds for every run.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from covdp import GDP, MANIFOLDS, describe, domain, open_dataset
from covdp.addons.partners.join.journal import StudyJournal
from covdp.addons.partners.join.shares import JointNoise, Rehearsal, Share, Words
from covdp.addons.partners.join.site import Site
from covdp.arrays import FloatArray
from covdp.mean import Release, mean
from covdp.mechanisms import LATTICE
from tests.addons.partners.join.hub import Hub, together

BOUND = domain("oct5", height=28, width=28)
SPACE = MANIFOLDS["spd-log-euclidean"](k=5)
MU = 1.0
TILES = [describe(next(open_dataset("tiles").chunks(label=label)), "oct5") for label in (0, 1)]
Classes = tuple[FloatArray, FloatArray]


def part(place: int, many: int) -> Classes:
    """Return the records of both classes at a hospital."""
    return TILES[0][place:240:many], TILES[1][place:120:many]


def extremes() -> FloatArray:
    """Return descriptors of images unlike all others: black, a chessboard, stripes, one dot."""
    images = np.zeros((5, 28, 28), np.uint8)
    images[1] = 255 * (np.indices((28, 28)).sum(axis=0) % 2)
    images[2, :, ::2] = 255
    images[3, :14] = 255
    images[4, 14, 14] = 1
    return describe(images, "oct5")


def released(own: Classes, noise: JointNoise, total: int) -> list[Release]:
    """Return the joint mean of each class."""
    budget, known = noise.budget_of_total(GDP(MU)), {"domain": BOUND, "manifold": SPACE}
    return [
        mean(points, budget, plan="auto", noise=noise, total=total, **known)  # type: ignore[arg-type]
        for points in own
    ]


@dataclass
class Replay:
    """A meeting that says what was said, and keeps what one hospital would have sent."""

    journal: StudyJournal
    parameters: Mapping[int, Mapping[str, Any]]
    sums: list[tuple[NDArray[np.int64], float]] = field(default_factory=list)

    def opened(self, step: int, share: Share) -> Words:
        """Return the total that was opened."""
        self.sums.append((share.whole, share.scale))
        content = self.journal.entries[f"opened {step}"]
        return np.frombuffer(content, "<u8").astype(np.uint64)

    def agreed(self, step: int, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters that were agreed."""
        return self.parameters[step]


def told(
    journal: StudyJournal,
    parameters: Mapping[int, Mapping[str, Any]],
    own: Classes,
    other: Classes,
    many: int,
    colluders: int,
) -> float:
    """Return the squared moves of all steps over the noise that is not known: μ² of the replay."""
    total = int.from_bytes(journal.entries["total"], "big")
    found = []
    for classes in (own, other):
        meeting = Replay(journal, parameters)
        released(classes, JointNoise(many, colluders, total, meeting), total)
        found.append(meeting.sums)
    hidden = many - colluders
    return math.fsum(
        float(np.sum((a - b).astype(float) ** 2)) / (hidden * scale**2)
        for (a, scale), (b, _) in zip(*found, strict=True)
    )


def neighbours(own: Classes) -> list[Classes]:
    """Return data sets with a record replaced, by any other, or moved to the other class."""
    first, second = own
    found = list[Classes]()
    for row in (0, len(first) // 2):
        found += [
            (np.concatenate([first[:row], x[None], first[row + 1 :]]), second) for x in extremes()
        ]
        rest = np.delete(first, row, axis=0)
        found.append((rest, np.concatenate([second, first[[row]]])))
        found += [(rest, np.concatenate([second, x[None]])) for x in extremes()]
    return found


def lies(kind: str, name: str, answer: Any) -> Any:
    """Return totals that no hospital has sent, the same for all."""
    if not kind.startswith("step"):
        return answer
    words = np.frombuffer(answer, "<u8")
    rng = np.random.default_rng(list(kind.encode()))
    shift = rng.integers(-(2**46), 2**46, len(words)).astype(np.uint64)
    return (words + shift).astype("<u8").tobytes()


def narrow(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters with balls a hundredth as wide, far from where records are."""
    changed = dict(parameters)
    if "radius" in changed:
        changed["radius"], changed["unit"] = changed["radius"] / 100, changed["unit"] / 100
        changed["centre"] = changed["centre"] + 0.5 * changed["radius"][:, None]
    return changed


def wide(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters whose overshoots are measured in tiny lengths, and shells elsewhere."""
    changed = dict(parameters)
    if "near" in changed:
        changed |= {key: changed[key] * 1e-3 for key in ("near", "far", "farthest")}
    if "centres" in changed:
        changed["centres"] = changed["centres"] + 1.0
    return changed


@pytest.mark.parametrize(
    ("lie", "lead"),
    [(None, None), (lies, None), (None, narrow), (None, wide)],
    ids=["honest", "totals", "narrow", "wide"],
)
@pytest.mark.parametrize(("many", "colluders"), [(3, 1), (2, 0), (4, 2)])
def test_replayed_transcripts_tell_at_most_mu(
    many: int,
    colluders: int,
    lie: Callable[[str, str, Any], Any] | None,
    lead: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a record replaced or moved, t shares known, whatever the server or the leader say."""
    names = tuple(f"h{place}" for place in range(many))
    agreed, kept = Site.agreed, dict[int, Mapping[str, Any]]()

    def leading(site: Site, step: int, parameters: Any) -> Any:
        own = lead(parameters) if lead and site.name == names[0] else parameters
        found = agreed(site, step, own)
        if site.name == names[1]:
            kept[step] = found
        return found

    monkeypatch.setattr(Site, "agreed", leading)

    def work(site: Site) -> None:
        own = part(names.index(site.name), many)
        total = site.count(sum(map(len, own)))
        released(own, JointNoise(many, colluders, total, site), total)

    hub = Hub(names, lie) if lie else Hub(names)
    results, _ = together(work, tmp_path, names, hub=hub)
    assert set(results.values()) == {None}
    journal = StudyJournal.read(tmp_path / f"{names[1]}.json")
    own = part(1, many)
    found = [told(journal, kept, own, other, many, colluders) for other in neighbours(own)]
    print(max(found))
    assert max(found) <= MU**2
    if lie is None and lead is None:
        assert max(found) > 0.2 * MU**2  # the attack is one


def test_one_hospital_alone_has_the_law_of_today() -> None:
    """Coordinates of 250 releases each: two-sample tests, p above 1e-5 for all fifteen together."""

    def alone(seed: int) -> Release:
        return mean(
            TILES[0][:200], GDP(MU), domain=BOUND, manifold=SPACE, plan="auto", total=400,
            noise=JointNoise(1, 0, 400, Rehearsal()) if seed % 2 else LATTICE,
        )  # fmt: skip

    drawn = [alone(seed).coordinates for seed in range(500)]
    joint, today = np.array(drawn[1::2]), np.array(drawn[::2])
    values = [stats.ks_2samp(a, b).pvalue for a, b in zip(joint.T, today.T, strict=True)]
    spreads = [stats.levene(a, b).pvalue for a, b in zip(joint.T, today.T, strict=True)]
    assert min(values + spreads) > 1e-5 / 30
