"""The account of budget: one charge a release, never over the total, nothing private in clear."""

import base64
import hashlib
import pickle
import sqlite3
import stat
import time
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covdp.errors import BudgetError, LedgerError, PrivacyError
from covdp.ledger import Account, Ledger, Reservation, StoredRelease, init_ledger, open_ledger
from covdp.ledger.database import connect
from covdp.ledger.records import check_affordable
from covdp.privacy import (
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
    compose,
    epsilon_of,
    fits,
)
from tests.tools.postgres import new_address

QUERY = '{"descriptor": "oct5", "mechanism": "ewg"}'
IMAGES = bytes(range(256)) * 7


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """Return a new ledger, in each kind of database, with 1-GDP for the population "chest"."""
    opened = init_ledger(new_address(request.param, tmp_path))
    opened.set_budget("chest", GDP(1.0))
    return opened


@pytest.fixture
def lite(tmp_path: Path) -> Ledger:
    """Return a new ledger in a SQLite file, without a population."""
    return init_ledger(tmp_path / "ledger.sqlite")


def ask(
    ledger: Ledger,
    run_key: str = "monday",
    cost: Budget = GDP(0.1),  # noqa: B008
    *,
    population: str = "chest",
    query: str = QUERY,
    images: bytes = IMAGES,
) -> Reservation | StoredRelease:
    """Reserve a release of one class."""
    contents = {"normal": ledger.digest([images])}
    return ledger.reserve(population, query, run_key, contents=contents, cost=cost)


def pay(ledger: Ledger, run_key: str = "monday", cost: Budget = GDP(0.1)) -> StoredRelease:  # noqa: B008
    """Reserve and commit."""
    found = ask(ledger, run_key, cost)
    return found if isinstance(found, StoredRelease) else ledger.commit(found, run_key.encode())


def test_a_release_is_charged_once(ledger: Ledger) -> None:
    """Reserving, crashing, asking again, committing and asking for ever costs one charge."""
    first, again = ask(ledger), ask(ledger)
    assert isinstance(first, Reservation)
    assert again == first
    (row,) = ledger.show()
    assert (row.spent, row.releases, row.unfinished) == (GDP(0.1), 1, 1)
    stored = ledger.commit(again, b"\x00\xffnoised")
    assert stored.result == b"\x00\xffnoised"
    assert stored.digest == hashlib.sha256(stored.result).hexdigest()
    assert ask(open_ledger(ledger.database.url.render_as_string(False))) == stored
    (row,) = ledger.show()
    assert (row.spent, row.releases, row.unfinished) == (GDP(0.1), 1, 0)


def test_the_first_commit_wins(ledger: Ledger) -> None:
    """Of two attempts that hold one charge, both get the bytes of the one that commits first."""
    slow, fast = ask(ledger), ask(ledger)
    assert isinstance(slow, Reservation)
    assert isinstance(fast, Reservation)
    winner = ledger.commit(fast, b"fast")
    assert winner.result == b"fast"
    assert ledger.commit(slow, b"slow") == winner
    assert ask(ledger) == winner
    assert ledger.show()[0].spent == GDP(0.1)


@pytest.mark.parametrize("change", ["run_key", "query", "images", "cost"])
def test_any_difference_is_a_new_release(lite: Ledger, change: str) -> None:
    """Another run key, query, content or cost is charged by itself, images added included."""
    lite.set_budget("chest", GDP(1.0))
    first = pay(lite)
    cost = GDP(0.2 if change == "cost" else 0.1)
    found = ask(
        lite,
        "tuesday" if change == "run_key" else "monday",
        cost,
        query=QUERY + " " if change == "query" else QUERY,
        images=IMAGES + b"one more" if change == "images" else IMAGES,
    )
    assert isinstance(found, Reservation)
    assert found.number > first.number
    (row,) = lite.show()
    assert row.releases == 2
    assert row.spent == compose([GDP(0.1), cost])


def test_stored_results_outlive_the_budget(ledger: Ledger) -> None:
    """When nothing is left, new releases are refused and settled ones still come back."""
    stored = pay(ledger, "monday", GDP(1.0))
    with pytest.raises(LedgerError, match="has nothing left of μ = 1,"):
        ask(ledger, "tuesday", GDP(1e-6))
    assert ask(ledger, "monday", GDP(1.0)) == stored
    (row,) = ledger.show()
    assert (row.spent, row.left, row.epsilon_left) == (GDP(1.0), None, 0.0)
    assert row.epsilon_spent == row.epsilon_budget


def test_refusal_says_what_is_left_and_left_can_be_spent(ledger: Ledger) -> None:
    """Out of budget names left, total and cost; a release of exactly left is then accepted."""
    pay(ledger, "monday", GDP(0.7))
    left = ledger.show()[0].left
    assert left is not None
    with pytest.raises(LedgerError) as refusal:
        ask(ledger, "tuesday", GDP(0.8))
    for figure in (f"μ = {left.mu!r} left", "of μ = 1,", "costs μ = 0.8;", "'chest'"):  # type: ignore[union-attr]
        assert figure in str(refusal.value)
    assert ledger.show()[0].releases == 1
    pay(ledger, "tuesday", left)
    assert ledger.show()[0].spent == GDP(1.0)


def test_a_charge_is_refused_before_images_are_read(ledger: Ledger) -> None:
    """The early check says what `reserve` says, and lets pass what may be asked for again."""
    ledger.check_charge("chest", GDP(1.0), "monday")
    assert ledger.show()[0].releases == 0
    ask(ledger, "monday", GDP(1.0))
    ledger.check_charge("chest", GDP(1.0), "monday")
    with pytest.raises(BudgetError) as late:
        ask(ledger, "tuesday", GDP(0.5))
    with pytest.raises(BudgetError) as early:
        ledger.check_charge("chest", GDP(0.5), "tuesday")
    assert str(early.value) == str(late.value)
    with pytest.raises(LedgerError, match="in the definition of GDP") as other:
        ledger.check_charge("chest", ZCDP(0.1), "tuesday")
    assert not isinstance(other.value, BudgetError)
    with pytest.raises(LedgerError, match="'ward' has no budget in"):
        ledger.check_charge("ward", GDP(0.5), "monday")


@pytest.mark.parametrize(
    ("total", "cost", "times"),
    [
        (ZCDP(0.3), ZCDP(0.1), 3),
        (ZCDP(1.0), ZCDP(0.1), 10),
        (GDP(1.0), GDP(0.2), 25),
        (GDP(0.3), GDP(0.1), 9),
    ],
)
def test_decimals_add_up_as_they_are_written(total: Budget, cost: Budget, times: int) -> None:
    """A budget planned for k releases pays k of them, not one less by the last bit, and no more."""
    account = Account("chest", total, 1e-5, datetime.now(UTC), (cost,) * (times - 1), 1, 0)
    check_affordable(account, cost)
    full = replace(account, costs=(cost,) * times)
    assert (full.spent, full.left) == (total, None)
    with pytest.raises(LedgerError, match="nothing left"):
        check_affordable(full, cost)


numbers = st.floats(1e-6, 1e3)
MAKERS: dict[str, Callable[[float], Budget]] = {
    "pure": PureDP,
    "approx": lambda x: ApproxDP(x, x * 1e-6),
    "gdp": GDP,
    "rdp": lambda x: RDP(8.0, x),
    "zcdp": ZCDP,
}


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60)
@given(total=numbers, asked=st.lists(numbers, max_size=8))
def test_account_is_never_overdrawn_and_left_is_tight(
    name: str, total: float, asked: list[float]
) -> None:
    """Whatever is asked: accepted charges compose to ≤ total, left is accepted, a bit more not."""
    make = MAKERS[name]
    created = datetime(2026, 1, 1, tzinfo=UTC)
    account = Account("chest", make(total), 0.5, created, (), 1, 0)
    for cost in map(make, asked):
        try:
            check_affordable(account, cost)
        except LedgerError:
            continue
        account = replace(account, costs=(*account.costs, cost))
    if account.spent:
        assert fits(account.spent, account.budget)
    left = account.left
    if left is None:
        return
    check_affordable(account, left)
    field = {"gdp": "mu", "zcdp": "rho"}.get(name, "epsilon")
    value = getattr(left, field) * (1 + 1e-9) + total * 1e-6
    more: Budget = replace(left, **{field: value})
    with pytest.raises(LedgerError, match="left of"):
        check_affordable(account, more)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60)
@given(
    total=st.one_of(numbers, st.sampled_from([0.3, 1.0, 2.0])),
    spent=st.lists(numbers, max_size=3),
    cost=st.one_of(st.floats(0.02, 1.0), st.sampled_from([0.1, 0.2, 0.05])),
)
def test_releases_left_is_exact(name: str, total: float, spent: list[float], cost: float) -> None:
    """As many more releases as are said fit, and one more does not."""
    make = MAKERS[name]
    created = datetime(2026, 1, 1, tzinfo=UTC)
    account = Account("chest", make(total), 0.5, created, tuple(map(make, spent)), 1, 0)
    left = account.lasts(make(cost * total))
    price = (make(cost * total),)
    if left:
        before = replace(account, costs=account.costs + price * (left - 1))
        check_affordable(before, *price)
    with pytest.raises(BudgetError):
        check_affordable(replace(account, costs=account.costs + price * left), *price)


def test_releases_left_at_thousands(lite: Ledger) -> None:
    """Counted by formula, in the decimals that were typed, and for the latest charge in a row."""
    lite.set_budget("chest", GDP(100.0))
    assert lite.show("chest")[0].lasts(GDP(0.1)) == 1_000_000
    assert lite.show()[0].latest is None
    pay(lite, "monday", GDP(0.1))
    assert (lite.show()[0].latest, lite.show()[0].lasts(GDP(0.1))) == (GDP(0.1), 999_999)
    with pytest.raises(LedgerError, match="in the definition of GDP"):
        lite.show("chest")[0].lasts(ZCDP(0.1))
    with pytest.raises(LedgerError, match="has no budget"):
        lite.check_charge("ward", GDP(0.1), "monday")


def test_a_group_is_charged_for_a_person(ledger: Ledger) -> None:
    """The account pays for all records of one person; what was charged once stays charged."""
    contents = {"normal": ledger.digest([IMAGES])}

    def reserve(run_key: str, group: int) -> Reservation | StoredRelease:
        return ledger.reserve(
            "chest", QUERY, run_key, contents=contents, cost=GDP(0.2), group=group
        )

    found = reserve("monday", 4)
    assert isinstance(found, Reservation)
    assert found.cost == GDP(0.8) == ledger.show()[0].spent
    again = reserve("monday", 1)
    assert again == found
    assert ledger.commit(found, b"x").cost == GDP(0.8)
    with pytest.raises(BudgetError, match=r"costs μ = 0\.8"):
        reserve("tuesday", 4)
    with pytest.raises(PrivacyError, match="a group"):
        reserve("tuesday", 0)


def test_a_reservation_tells_of_its_account(ledger: Ledger) -> None:
    """It says what was left right after the charge, however much is spent before it is resumed."""
    first = ask(ledger, "monday", GDP(0.5))
    ask(ledger, "tuesday", GDP(0.5))
    ledger.set_budget("chest", GDP(3.0))
    again = ask(ledger, "monday", GDP(0.5))
    assert isinstance(first, Reservation)
    assert again == first
    assert (first.account.budget, first.account.spent) == (GDP(1.0), GDP(0.5))
    assert (first.account.releases, first.account.unfinished) == (1, 1)
    assert (first.account.left, first.account.lasts(GDP(0.5))) == (GDP(0.75**0.5), 3)


def test_history_tells_everything_in_order(ledger: Ledger) -> None:
    """Budgets set and changed, charges with cost, run and commit, oldest first, by population."""
    pay(ledger, "monday", GDP(0.5))
    ledger.set_budget("other", ZCDP(1.0))
    ledger.set_budget("chest", GDP(2.0))
    ask(ledger, "tuesday", GDP(0.25))
    lines = ledger.history("chest")
    assert [(one.kind, one.cost, one.run_key) for one in lines] == [
        ("budget", None, None),
        ("charge", GDP(0.5), "monday"),
        ("budget", None, None),
        ("charge", GDP(0.25), "tuesday"),
    ]
    assert [one.committed is not None for one in lines] == [False, True, False, False]
    assert lines[1].text == "charged μ = 0.5 for run 'monday'"
    ask(ledger, "wednesday", query='{"name": "ward2"}')
    assert ledger.history()[-1].text == "charged μ = 0.1 for ward2, run 'wednesday'"
    assert [one.population for one in ledger.history()[:-1]] == ["chest", "chest", "other"] + 2 * [
        "chest"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "ward\u200b-7",  # zero-width space
        "ward\u2011-7",  # hyphen that does not break
        "ward\u20137",  # dash
        "ward\u00a07",  # blank that does not break
        "\u202eward-7",  # right to left
        "w\u0430rd-7",  # Cyrillic а
        "\uff57ard-7",  # full-width w
        "ward-\u0667",  # Arabic digit
        "ward\ufe0f-7",  # selects a variant
        "ward\u3164",  # Hangul filler
        "ward\u2800",  # empty Braille
        "ward\u034f-7",  # joins nothing
    ],
)
def test_names_that_look_alike_are_refused(lite: Ledger, name: str) -> None:
    """What is invisible or taken for another letter is refused at every door, for runs as well."""
    good = {"normal": lite.digest([IMAGES])}
    lite.set_budget("chest", GDP(1.0))
    calls: list[Callable[[], object]] = [
        lambda: lite.set_budget(name, GDP(1.0)),
        lambda: lite.show(name),
        lambda: lite.history(name),
        lambda: lite.check_charge(name, GDP(0.1), "monday"),
        lambda: lite.check_charge("chest", GDP(0.1), name),
        lambda: lite.reserve(name, QUERY, "monday", contents=good, cost=GDP(0.1)),
        lambda: lite.reserve("chest", QUERY, name, contents=good, cost=GDP(0.1)),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="name it in plain letters") as refusal:
            call()
        assert str(refusal.value).isascii()
    assert lite.show()[0].releases == 0


@pytest.mark.parametrize("name", ["Ward-7 b", "ward-7  b", "WARD-7B"])
def test_an_account_is_not_opened_beside_its_double(lite: Ledger, name: str) -> None:
    """A name that differs from another in case and blanks alone would be a second budget."""
    lite.set_budget("ward-7 b", GDP(1.0))
    with pytest.raises(LedgerError, match=r"easily taken for 'ward-7 b'"):
        lite.set_budget(name, GDP(1.0))
    lite.set_budget("ward-7 b", GDP(2.0))
    lite.set_budget("ward-7 c", GDP(1.0))
    assert [row.population for row in lite.show()] == ["ward-7 b", "ward-7 c"]


@pytest.mark.parametrize(
    "name", ["ward-7", "Zürich 3", "病棟7", "ward-病棟", "Ωμέγα", "отделение-7"]
)
def test_names_in_any_language_are_one_however_typed(lite: Ledger, name: str) -> None:
    """Letters of one language are names, however accents are stored and blanks put around."""
    lite.set_budget(f" {unicodedata.normalize('NFD', name)} ", GDP(1.0))
    lite.set_budget(name, GDP(2.0))
    (row,) = lite.show(name + " ")
    assert (row.population, row.budget) == (name, GDP(2.0))
    first = ask(lite, f"{name}", population=name)
    again = ask(lite, f" {unicodedata.normalize('NFD', name)}", population=f"{name} ")
    assert again == first


@pytest.mark.parametrize(
    "key", ["a/b", "a\\b", "..", "a..b", "monday.", "con", "Com1.txt", "LPT³", "é" * 51, "a" * 101]
)
def test_run_keys_are_names_of_files(lite: Ledger, key: str) -> None:
    """A run key that some file system refuses is refused before it is charged."""
    lite.set_budget("chest", GDP(1.0))
    with pytest.raises(LedgerError, match="run key"):
        ask(lite, key)
    with pytest.raises(LedgerError, match="run key"):
        lite.check_charge("chest", GDP(0.1), key)
    assert lite.show()[0].releases == 0
    ask(lite, {"con": "console"}.get(key, "2026-03-01T02:00"))


def test_approximate_budget_counts_delta(lite: Ledger) -> None:
    """(ε, δ) adds up in both: δ alone can end a budget, and a sum of δ above 1 is a refusal."""
    lite.set_budget("chest", ApproxDP(10.0, 1e-5))
    pay(lite, "monday", ApproxDP(1.0, 6e-6))
    with pytest.raises(LedgerError, match="left of"):
        ask(lite, "tuesday", ApproxDP(1.0, 6e-6))
    with pytest.raises(LedgerError, match="left of"):
        ask(lite, "tuesday", ApproxDP(1.0, 0.999999))
    assert lite.show()[0].spent == ApproxDP(1.0, 6e-6)
    assert lite.show()[0].epsilon_spent <= 1.0


@pytest.mark.parametrize("cost", [PureDP(0.1), ZCDP(0.1), RaoDP(0.1), KLDP(0.1)])
def test_cost_in_another_definition_is_refused(lite: Ledger, cost: Budget) -> None:
    """A GDP account takes no other definition and says so; nothing is charged."""
    lite.set_budget("chest", GDP(1.0))
    with pytest.raises(LedgerError, match="accounted in the definition of GDP"):
        ask(lite, cost=cost)
    assert lite.show()[0].releases == 0


def test_renyi_orders_are_definitions(lite: Ledger) -> None:
    """Rényi DP adds up at one order only: another order is another definition."""
    lite.set_budget("chest", RDP(8.0, 1.0))
    pay(lite, cost=RDP(8.0, 0.5))
    with pytest.raises(LedgerError, match="accounted in"):
        ask(lite, "tuesday", RDP(4.0, 0.1))
    with pytest.raises(LedgerError, match="accounted in"):
        lite.set_budget("chest", RDP(4.0, 9.0))


def test_totals_change_only_as_allowed_and_leave_a_line(ledger: Ledger) -> None:
    """Raised and lowered down to what is spent, with a line each; below it or renamed, refused."""
    pay(ledger, cost=GDP(0.6))
    ledger.set_budget("chest", GDP(1.0))  # as it is: no line
    ledger.set_budget("chest", GDP(2.0), delta=1e-6)
    ledger.set_budget("chest", GDP(0.6))
    for refused in (GDP(0.59), ZCDP(5.0), PureDP(5.0)):
        with pytest.raises(LedgerError, match="'chest'"):
            ledger.set_budget("chest", refused)
    (row,) = ledger.show("chest")
    assert (row.budget, row.left, row.delta) == (GDP(0.6), None, 1e-6)
    changes = [line for line in ledger.history("chest") if line.kind == "budget"]
    assert [line.text for line in changes] == [
        "opened with μ = 1 (ε is stated at δ = 10⁻⁵)",
        "changed from μ = 1 (ε is stated at δ = 10⁻⁵), to μ = 2 (ε is stated at δ = 10⁻⁶)",
        "changed from μ = 2 (ε is stated at δ = 10⁻⁶), to μ = 0.6 (ε is stated at δ = 10⁻⁶)",
    ]
    assert ledger.history("other") == ()


@pytest.mark.parametrize("budget", [RaoDP(1.0), KLDP(1.0), MCDP(1.0, 1.0)])
def test_labels_are_no_budgets(lite: Ledger, budget: Budget) -> None:
    """A definition that certifies no (ε, δ) opens no account."""
    with pytest.raises(PrivacyError):
        lite.set_budget("chest", budget)
    assert lite.show() == ()


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 1e-7])
def test_delta_must_mean_something(lite: Ledger, delta: float) -> None:
    """δ to show lies in (0, 1), and not below that of an approximate budget."""
    with pytest.raises(PrivacyError):
        lite.set_budget("chest", ApproxDP(1.0, 1e-6), delta=delta)


def test_show_states_every_figure(ledger: Ledger) -> None:
    """Rows come by name, exact to the last bit, with ε at the δ of the population."""
    ledger.set_budget("breast", ZCDP(0.1 + 0.2), delta=1e-6)
    pay(ledger, "a", GDP(0.1))
    pay(ledger, "b", GDP(0.2))
    breast, chest = ledger.show()
    assert (breast.population, breast.budget, breast.spent) == ("breast", ZCDP(0.1 + 0.2), None)
    assert breast.left == breast.budget
    assert breast.epsilon_left == breast.epsilon_budget == epsilon_of(breast.budget, 1e-6)
    assert breast.epsilon_spent == 0
    assert chest.spent == compose([GDP(0.1), GDP(0.2)])
    assert chest.epsilon_spent == epsilon_of(chest.spent, 1e-5)
    with pytest.raises(LedgerError, match="no population 'x'; it has 'breast', 'chest'"):
        ledger.show("x")


def test_a_content_refuses_no_other_population(ledger: Ledger) -> None:
    """A content that is known under a name is charged under another: the refusal would tell."""
    ledger.set_budget("lungs", GDP(5.0))
    ask(ledger)  # charged, never committed
    contents = {"new": ledger.digest([b"new"]), "known": ledger.digest([IMAGES])}
    ledger.reserve("lungs", QUERY, "monday", contents=contents, cost=GDP(0.1))
    assert ledger.show("lungs")[0].releases == 1
    assert [line.population for line in ledger.charges_of(contents.values())] == ["chest", "lungs"]


def test_a_refused_charge_claims_no_content(ledger: Ledger) -> None:
    """A release refused for want of budget leaves its content free for the right population."""
    with pytest.raises(LedgerError, match="left of"):
        ask(ledger, cost=GDP(3.0))
    ledger.set_budget("lungs", GDP(5.0))
    assert isinstance(ask(ledger, cost=GDP(3.0), population="lungs"), Reservation)


def test_classes_may_hold_copies(lite: Ledger) -> None:
    """Two classes with copies of the same images are paid: a refusal would tell that they are."""
    lite.set_budget("chest", GDP(1.0))
    one = lite.digest([IMAGES])
    lite.reserve("chest", QUERY, "monday", contents={"a": one, "b": one}, cost=GDP(0.1))
    assert lite.show("chest")[0].spent == GDP(0.1)


def test_order_of_classes_does_not_matter(lite: Ledger) -> None:
    """The same classes in another order are the same release; swapped labels are not."""
    lite.set_budget("chest", GDP(1.0))
    x, y = lite.digest([b"x"]), lite.digest([b"y"])
    rows = []
    for contents in ({"a": x, "b": y}, {"b": y, "a": x}, {"a": y, "b": x}):
        found = lite.reserve("chest", QUERY, "monday", contents=contents, cost=GDP(0.1))
        assert isinstance(found, Reservation)
        rows.append(found.number)
    assert rows[0] == rows[1] < rows[2]


@given(cuts=st.lists(st.integers(0, len(IMAGES)), max_size=6).map(sorted))
@settings(max_examples=30)
def test_digest_does_not_see_chunks(cuts: list[int]) -> None:
    """A digest is that of the concatenation, however it is cut."""
    ledger = Ledger(None, bytes(32))  # type: ignore[arg-type]
    edges = [0, *cuts, len(IMAGES)]
    chunks = [IMAGES[a:b] for a, b in pairwise(edges)]
    assert ledger.digest(chunks) == ledger.digest([IMAGES])
    assert ledger.digest([IMAGES[:-1]]) != ledger.digest([IMAGES])


def test_digests_are_keyed(tmp_path: Path) -> None:
    """Two ledgers digest the same content differently; one keeps its key when opened again."""
    one, two = init_ledger(tmp_path / "one"), init_ledger(tmp_path / "two")
    assert one.digest([IMAGES]) != two.digest([IMAGES])
    assert init_ledger(tmp_path / "one") == open_ledger(tmp_path / "one") == one
    assert len(one.key) == 32
    assert one.key.hex() not in repr(one)
    assert one.key.hex() in (tmp_path / "one").read_bytes().decode("latin-1")


def test_no_plain_hash_and_no_content_in_the_file(lite: Ledger) -> None:
    """The file holds neither the images nor any plain hash of them, in any usual spelling."""
    lite.set_budget("chest", GDP(1.0))
    pay(lite)
    held = Path(lite.database.place.removeprefix("ledger ")).read_bytes()
    assert lite.digest([IMAGES]).encode() in held
    assert IMAGES[:16] not in held
    for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "sha3_256"):
        plain = hashlib.new(name, IMAGES).digest()
        for spelt in (
            plain,
            plain.hex().encode(),
            base64.b64encode(plain),
            plain[:8].hex().encode(),
        ):
            assert spelt not in held


def test_identity_stays_inside(ledger: Ledger) -> None:
    """No record prints the digests: neither a reservation nor what is stored."""
    found = ask(ledger)
    assert isinstance(found, Reservation)
    shown = repr(found) + repr(ledger.commit(found, b"x")) + repr(ledger.show())
    assert found.identity not in shown
    assert ledger.digest([IMAGES]) not in shown


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_times_are_utc(lite: Ledger, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """Times are in UTC, whatever the time zone of the machine that wrote them."""
    before = datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        lite.set_budget("chest", GDP(1.0))
        pay(lite)
    finally:
        monkeypatch.undo()
        time.tzset()
    stored = pay(lite)
    seen = [stored.reserved, stored.committed, lite.show()[0].created, lite.history()[0].at]
    assert {moment.utcoffset() for moment in seen} == {UTC.utcoffset(None)}
    assert all(before <= moment <= datetime.now(UTC) for moment in seen)


def test_a_ledger_travels(ledger: Ledger) -> None:
    """A ledger can be pickled, as runners on other machines need, and works the same there."""
    copy = pickle.loads(pickle.dumps(ledger))
    assert copy == ledger
    pay(copy)
    assert ledger.show()[0].releases == 1


def test_a_commit_is_flushed_to_the_disk(lite: Ledger) -> None:
    """Every transaction has SQLite's safest setting, EXTRA (3): a power cut loses nothing."""
    for write in (False, True):
        with connect(lite.database, write=write) as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3


def test_a_writer_waits_until_it_is_alone(lite: Ledger) -> None:
    """Between what a writer reads and what it writes nobody else can write."""
    other = replace(lite.database, timeout=0.05)
    with connect(lite.database) as connection:
        connection.exec_driver_sql("SELECT count(*) FROM covdp_journal")
        with pytest.raises(LedgerError, match="locked"), connect(other):
            pass


def test_file_is_private(lite: Ledger, tmp_path: Path) -> None:
    """The file, which holds the key, is readable for its owner alone; folders are made."""
    for name in ("ledger.sqlite", "ledger.sqlite.marker"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    odd = tmp_path / "new" / "odd ?#%20:memory: name"
    init_ledger(odd).set_budget("chest", GDP(1.0))
    assert len(open_ledger(odd).show()) == 1
    assert {path.name for path in odd.parent.iterdir()} == {odd.name, f"{odd.name}.marker"}


def test_opening_never_creates(tmp_path: Path) -> None:
    """A mistyped path is an error, not a new ledger with a fresh budget."""
    with pytest.raises(LedgerError, match="covdp ledger init"):
        open_ledger(tmp_path / "typo.sqlite")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").touch()
    sqlite3.connect(tmp_path / "foreign").execute("CREATE TABLE t (x)").connection.close()
    for name in ("empty", "foreign"):
        with pytest.raises(LedgerError, match="holds no ledger"):
            open_ledger(tmp_path / name)


@pytest.mark.parametrize(
    "address",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "mysql://root:hunter2@host/db",
        "postgresql://root:hunter2@host",
        "postgresql://root:hunter2@host:port/db",
        "://hunter2",
    ],
)
def test_other_addresses_are_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files and PostgreSQL: memory forgets, and a message never repeats the address."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match="must be the path of a file") as refusal:
        init_ledger(address)
    assert "hunter2" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_timeouts_are_positive(tmp_path: Path, timeout: float) -> None:
    """Waiting for ever is not offered."""
    with pytest.raises(LedgerError, match="above 0 seconds"):
        init_ledger(tmp_path / "x", timeout=timeout)


def test_arguments_are_checked(lite: Ledger) -> None:
    """Unknown population, nameless things, no class and plain text for a digest are refused."""
    good = {"normal": lite.digest([IMAGES])}
    with pytest.raises(LedgerError, match=r"'chest' has no budget in .*set-budget"):
        lite.reserve("chest", QUERY, "monday", contents=good, cost=GDP(0.1))
    lite.set_budget("chest", GDP(1.0))
    for name in ("", " ", "a\nb", "a\0b"):
        with pytest.raises(LedgerError, match="one line"):
            lite.set_budget(name, GDP(1.0))
        with pytest.raises(LedgerError, match="one line"):
            lite.reserve("chest", QUERY, name, contents=good, cost=GDP(0.1))
    with pytest.raises(LedgerError, match="found none"):
        lite.reserve("chest", QUERY, "monday", contents={}, cost=GDP(0.1))
    with pytest.raises(LedgerError, match="not a digest") as refusal:
        lite.reserve("chest", QUERY, "monday", contents={"a": "images!"}, cost=GDP(0.1))
    assert "images!" not in str(refusal.value)
    held = ask(lite)
    assert isinstance(held, Reservation)
    with pytest.raises(LedgerError, match="does not know this reservation"):
        lite.commit(replace(held, identity="0" * 64), b"x")
