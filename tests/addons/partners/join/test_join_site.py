"""Joint releases without a network: what is opened, what a server sees, what is refused.

Statistical tests are seeded where they can be; the noise of shares is not, and each states how
often it raises a false alarm.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

from covdp import GDP, MANIFOLDS, describe, domain, frechet_mean, open_dataset
from covdp.addons.partners.join import shares
from covdp.addons.partners.join.shares import JointNoise, Share, check_room, share_of
from covdp.addons.partners.join.site import Site
from covdp.errors import ConfigError, PrivacyError
from covdp.mean import Release, mean
from covdp.mean.sums import PER_UNIT
from tests.addons.partners.join.hub import Hub, Kept, Killed, study_of, together

NAMES = ("north", "south", "west")
BOUND = domain("oct5", height=28, width=28)
SPACE = MANIFOLDS["spd-log-euclidean"](k=5)
POINTS = describe(next(open_dataset("tiles").chunks(label=0)), "oct5")[:600]
PARTS = dict(zip(NAMES, np.split(POINTS, [100, 350]), strict=True))


def draw(site: Site, *, mu: float = 1.0, colluders: int = 1, stop: int | None = None) -> Release:
    """Return the joint mean at a hospital of its part of the records."""
    own = PARTS[site.name]
    total = site.count(len(own))
    many = len(site.study.hospitals)
    noise = JointNoise(many, colluders, total, site)
    if stop is not None:
        before = site.opened

        def opened(step: int, share: Share) -> Any:
            if step == stop and site.name == "south":
                site.keep(f"share {step}", lambda: share.draw().astype("<u8").tobytes())
                raise Killed
            return before(step, share)

        site.opened = opened  # type: ignore[method-assign]
    budget = GDP(mu * math.sqrt((many - colluders) / many))
    return mean(own, budget, domain=BOUND, manifold=SPACE, plan="auto", noise=noise, total=total)


def test_all_hospitals_end_with_the_same_release() -> None:
    """It is as near the mean of all as noise of its size allows, and its ρ is that of μ."""
    results, _ = together(draw)
    first = results["north"]
    for name in NAMES:
        np.testing.assert_array_equal(results[name].outputs, first.outputs)
        assert results[name].rhos.sum() == pytest.approx(0.5, rel=1e-9)
    true = frechet_mean(POINTS, SPACE).point
    assert SPACE.dist(true, first.point) < 5.0 * first.predicted_error[0]


def test_what_is_opened_is_the_sum_of_whole_numbers() -> None:
    """To the last bit, of numbers near the ends of the lattice too."""
    drawn = dict[tuple[str, int], list[int]]()
    rng = np.random.default_rng(0)
    sums = {name: rng.integers(-(2**60), 2**60, 40) for name in NAMES}

    def work(site: Site) -> list[list[int]]:
        found = []
        for step in (1, 2, 3):
            total = site.opened(step, Share(sums[site.name], 2.0**41))
            noised = site.keep(f"share {step}", bytes)
            drawn[site.name, step] = np.frombuffer(noised, "<i8").tolist()
            found.append(total.view(np.int64).tolist())
        return found

    results, _ = together(work)
    for step in (1, 2, 3):
        exact = [sum(column) for column in zip(*(drawn[n, step] for n in NAMES), strict=True)]
        assert all(results[name][step - 1] == exact for name in NAMES)


def test_a_server_sees_uniform_words() -> None:
    """Bytes of 12,000 masked words: a χ² test and one of serial pairs, p above 1e-6 each."""
    same = np.zeros(2000, np.int64)

    def work(site: Site) -> None:
        for step in (1, 2):
            site.opened(step, Share(same, 2.0**35))

    _, hub = together(work)
    words = [said[64:] for kind, by in hub.seen if kind.startswith("step") for said in by.values()]
    octets = np.frombuffer(b"".join(words), np.uint8)
    assert len(octets) == 8 * 12_000
    assert stats.chisquare(np.bincount(octets, minlength=256)).pvalue > 1e-6
    bits = np.unpackbits(octets).astype(float)
    pairs = float(np.corrcoef(bits[:-8], bits[8:])[0, 1]) * math.sqrt(len(bits))
    assert abs(pairs) < 5.0


def test_noise_of_a_total_is_that_of_all_hospitals() -> None:
    """Its standard deviation is σ within 4 standard errors: a false alarm in 16,000 runs."""
    sigma, count = 2.0, 4000

    def work(site: Site) -> Any:
        noise = JointNoise(3, 1, 1000, site)
        return noise(np.zeros(count), sigma, 1.0)

    results, _ = together(work)
    found = results["north"].vector.std()
    assert abs(found / sigma - 1.0) < 4.0 / math.sqrt(2.0 * count)
    assert stats.kstest(results["north"].vector / sigma, "norm").pvalue > 1e-5
    assert results["north"].rho == pytest.approx(3 / 2 / (2 * sigma**2), rel=1e-9)


@pytest.mark.parametrize(("many", "colluders"), [(2, 0), (2, 1), (3, 1), (5, 1), (10, 1), (10, 4)])
def test_shares_keep_the_promise_against_those_who_know_some(many: int, colluders: int) -> None:
    """What is left of the noise without t shares is at least what ρ says, rounding included."""
    for sigma, delta, dim in itertools.product((0.3, 2.0, 500.0), (1.0, 1.0 + 1e-9), (8, 200)):
        scale, rho = share_of(sigma, delta, dim, hospitals=many, colluders=colluders)
        moved = (delta + 2.0**-30) * PER_UNIT + math.sqrt(2.0 * dim)  # sums of 2²² records
        assert rho >= moved**2 / (2.0 * (many - colluders) * scale**2)
        assert scale * math.sqrt(many) >= sigma * PER_UNIT * moved / (delta * PER_UNIT)
        budget = delta**2 / (2.0 * sigma**2) * many / (many - colluders)
        assert rho <= budget * (1.0 + 1e-11)


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_hospital_that_is_killed_goes_on_without_new_noise(stop: int) -> None:
    """Each step that was opened is what it was, and no share is drawn twice."""
    kept: Kept = {}
    together(lambda site: draw(site, stop=stop), kept=kept)
    before = copied(kept)
    results, _ = together(draw, kept=kept)
    for name, after in copied(kept).items():
        assert after[: len(before[name])] == before[name]
        np.testing.assert_array_equal(results[name].outputs, results["north"].outputs)
    again, _ = together(draw, kept=kept)
    np.testing.assert_array_equal(again["west"].outputs, results["west"].outputs)
    assert all(len(rows) == len(set(rows)) for rows in copied(kept).values())


def test_other_parameters_after_a_break_draw_no_share_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody keeps parameters, so the leading hospital may lie about them: what was drawn stays."""
    kept: Kept = {}
    together(lambda site: draw(site, stop=3), kept=kept)
    before, agreed = copied(kept), Site.agreed
    assert [entry for entry, _ in before["south"]][-1] == "share 3"  # drawn, and not opened yet

    def lead(site: Site, step: int, parameters: Any) -> Any:
        wider = {x: 2.0 * y if x in ("radius", "unit") else y for x, y in parameters.items()}
        return agreed(site, step, wider if site.name == "north" else parameters)

    monkeypatch.setattr(Site, "agreed", lead)
    results, _ = together(draw, kept=kept)
    for name, after in copied(kept).items():
        assert after[: len(before[name])] == before[name]
        np.testing.assert_array_equal(results[name].outputs, results["north"].outputs)


def test_a_study_has_one_number_of_records() -> None:
    """That of its first attempt: with another one σ and shares of the budget would be others."""
    kept: Kept = {}
    first, _ = together(lambda site: site.count(10), kept=kept)
    assert set(first.values()) == {30}
    other, _ = together(lambda site: site.count(11), kept=kept)
    faults = {str(found) for found in other.values() if isinstance(found, ConfigError)}
    assert faults == {"another number of records in all was agreed: agree on a new study"}
    assert not any(isinstance(found, int) for found in other.values())


def copied(kept: Kept) -> dict[str, list[tuple[str, bytes]]]:
    """Return the entries of each hospital, in order."""
    return {name: [*entries.items()] for name, entries in kept.items()}


def lying(kind: str, change: Any) -> Hub:
    """Return a server that tells the west another answer in a turn."""

    def lie(turn: str, name: str, answer: Any) -> Any:
        return change(answer) if turn == kind and name == "west" else answer

    return Hub(NAMES, lie)


def forged(change: Any) -> Any:
    """Return a change of what the south is said to have sent, behind its signature."""
    return lambda said: {**said, "south": said["south"][:64] + change(said["south"][64:])}


@pytest.mark.parametrize(
    ("hub", "told"),
    [
        (
            lying("hello", lambda said: {k: v for k, v in said.items() if k != "south"}),
            "north, south, west are to take part",
        ),
        (lying("hello", lambda said: {**said, "south": said["north"]}), "south has the key"),
        (lying("hello", lambda said: {**said, "south": b"{}"}), "south did not say who it is"),
        (lying("hello", lambda said: {**said, "south": said["south"] + b"."}), "did not say who"),
        (
            lying("hello", lambda x: {**x, "south": x["south"][:32] + bytes(32) + x["south"][64:]}),
            "the masks of south have no key",
        ),
        (lying("hello", lambda said: {**said, "south": "words"}), "are to take part"),
        (lying("transcript", lambda said: [*said.values()]), "are to take part"),
        (
            lying("transcript", lambda said: {**said, "south": bytes(64)}),
            "what came as of south is not signed",
        ),
        (lying("parameters 1", forged(lambda _: bytes(8))), "what came as of south is not signed"),
        (lying("count", forged(lambda _: bytes(8))), "what came as of south is not signed"),
        (lying("count", forged(lambda words: words[:-1])), "what came as of south is not signed"),
        (
            lying("total", lambda said: {**said, "south": said["north"]}),
            "what came as of south is not signed",
        ),
        (
            lying("step 2", lambda said: {**said, "south": bytes(9)}),
            "what came as of south is not signed",
        ),
        (lying("step 5", forged(lambda x: x[8:] + x[:8])), "what came as of south is not signed"),
    ],
    ids=[
        *(
            "absent",
            "key",
            "hello",
            "long",
            "no key",
            "text",
            "list",
            "signature",
            "parameters",
            "count",
        ),
        *("short count", "total", "short", "other total"),
    ],
)
def test_what_a_server_says_falsely_opens_nothing_more(hub: Hub, told: str) -> None:
    """The first hospital that sees it says so in one line, and none ends."""
    check_lie(whole, hub, told)


def test_one_transcript_is_of_one_key_of_each_hospital() -> None:
    """A row of words can be parted in two ways if their length is free: all sign the same row.

    So the west would mask with a key of the server's in place of the south's.
    """

    def lie(turn: str, name: str, answer: Any) -> Any:
        if turn != "hello":
            return answer
        south = answer["south"]
        other = south[:32] + X25519PrivateKey.generate().public_key().public_bytes_raw()
        marked = b"south\0" + other + south[64:]
        if name == "west":
            return {**answer, "south": marked.removeprefix(b"south\0") + b"south\0" + south}
        return {**answer, "north": answer["north"] + marked} if name == "south" else answer

    hub = Hub(NAMES, lie)
    results, _ = together(whole, hub=hub)
    assert [kind for kind, _ in hub.seen] == ["hello"]
    assert any("did not say who it is" in str(found) for found in results.values())


def whole(site: Site) -> bytes:
    """Take part from the first turn to the last."""
    return site.end(draw(site).outputs.tobytes())


def check_lie(work: Any, hub: Hub, told: str) -> None:
    """Check that a lie ends an attempt, with one line, and that no other line is said of it."""
    results, _ = together(work, hub=hub)
    faults = [str(found) for found in results.values() if isinstance(found, ConfigError)]
    assert any(told in fault for fault in faults)
    assert not any("\n" in fault for fault in faults)
    assert not any(isinstance(found, bytes) for found in results.values())


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("count", bytes(7), "the words of south in count are damaged"),
        ("count", b"", "the words of south in count are damaged"),
        ("count", (1 << 23).to_bytes(8, "little"), "at most 4,194,304"),
        ("count", "another", "other numbers of records"),
        ("total", bytes(8), "other numbers of records"),
        ("step 2", bytes(9), "the words of south in step 2 are damaged"),
        ("step 2", "another", "were told other totals"),
        ("step 5", "another", "were told other totals"),
        ("end", bytes(32), "were told other totals"),
    ],
    ids=str,
)
def test_what_a_hospital_says_falsely_opens_nothing_more(kind: str, words: Any, told: str) -> None:
    """Signed by it, and the same to all; or another to the west, which a server may help with."""
    south = list[Site]()

    def work(site: Site) -> bytes:
        signed = site.signed
        if site.name == "south":
            south.append(site)
            if words != "another":
                site.signed = lambda x, y: signed(x, words if x == kind else y)  # type: ignore
        return whole(site)

    def lie(turn: str, name: str, said: Any) -> Any:
        if words != "another" or turn != kind or name != "west":
            return said
        other = bytes([said["south"][64] ^ 1]) + said["south"][65:]
        message = south[0]._message(kind, "south", other)
        return {**said, "south": south[0].identity.sign(message) + other}

    check_lie(work, Hub(NAMES, lie), told)


def test_no_step_is_opened_again_with_another_total() -> None:
    """Whatever a hospital says after a break; what the others have said stays as it was."""
    kept: Kept = {}
    together(lambda site: draw(site, stop=3), kept=kept)
    before = copied(kept)

    def work(site: Site) -> Any:
        signed = site.signed
        if site.name == "south":
            site.signed = lambda x, y: signed(x, y[8:] + y[:8] if x == "step 2" else y)  # type: ignore
        return draw(site)

    results, hub = together(work, kept=kept)
    faults = {str(found) for found in results.values() if isinstance(found, ConfigError)}
    assert faults == {"step 2 was opened with another total; agree on a new study"}
    assert copied(kept) == before
    assert "step 3" not in {kind for kind, _ in hub.seen}


@pytest.mark.parametrize("who", ["terms", "key"])
def test_another_study_or_another_key_is_refused(who: str) -> None:
    """Before any word of the images leaves."""
    terms = {"west": study_of(name="other")} if who == "terms" else None
    keys = {"west": Ed25519PrivateKey.generate()} if who == "key" else None
    results, hub = together(draw, terms=terms, keys=keys)
    assert any(isinstance(found, ConfigError) for found in results.values())
    assert {kind for kind, _ in hub.seen} <= {"hello", "transcript"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"radius": np.array([np.nan])}, "not finite"),
        ({"radius": np.array([0.0])}, "reaches that are not positive"),
        ({"unit": np.array([1e-3])}, "unit below twice the radius"),
        ({"centre": np.zeros((1, 3))}, "of other shapes"),
    ],
    ids=["nan", "zero", "unit", "shape"],
)
def test_parameters_out_of_range_are_refused(
    changes: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the leading hospital itself has signed them."""
    agreed = Site.agreed

    def lead(site: Site, step: int, parameters: Any) -> Any:
        if site.name != "north":
            return agreed(site, step, parameters)
        agreed(site, step, parameters | {k: v for k, v in changes.items() if k in parameters})
        return parameters

    monkeypatch.setattr(Site, "agreed", lead)
    results, hub = together(draw)
    faults = {str(found) for found in results.values() if isinstance(found, ConfigError)}
    assert len(faults) == 1  # of the first that sees it; the others hear no more
    assert told in faults.pop()
    assert not any(kind.startswith("step") for kind, _ in hub.seen)


def test_a_mask_is_put_on_one_sum_only() -> None:
    """The difference of two would tell both."""

    def work(site: Site) -> None:
        site.masked(1, np.arange(3, dtype=np.uint64))
        with pytest.raises(PrivacyError, match="one sum only"):
            site.masked(1, np.arange(1, 4, dtype=np.uint64))

    results, _ = together(work)
    assert set(results.values()) == {None}


def test_masks_of_two_steps_have_nothing_in_common() -> None:
    """No word of 1,000 is the same, by chance in one run of 10¹⁵. In a total they cancel."""
    words = np.arange(1000, dtype=np.uint64)

    def work(site: Site) -> Any:
        return [site.masked(step, words) for step in (1, 2)]

    results, _ = together(work)
    assert all((first != second).all() for first, second in results.values())
    for step in (0, 1):
        total = np.sum([masked[step] for masked in results.values()], axis=0, dtype=np.uint64)
        np.testing.assert_array_equal(total, 3 * words)


def test_words_that_do_not_fit_are_refused() -> None:
    """Of too many records, or with noise too wide."""
    check_room(1 << 22, 2.0**50)
    for total, noise in (((1 << 22) + 1, 1.0), (1 << 20, 2.0**59)):
        with pytest.raises(PrivacyError, match="do not fit into 64 bits"):
            check_room(total, noise)
    with pytest.raises(PrivacyError, match="cannot be shared"):
        share_of(1e-6, 1.0, 5, hospitals=3, colluders=1)
    assert shares.LEAST_SCALE == 2.0**30
