"""What is declared of charges: people have one budget, and nobody pays beside what was paid."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sample_nights import reserve

from covdp.errors import LedgerError
from covdp.ledger import Ledger, confirm_restored, init_ledger, open_ledger
from covdp.privacy import GDP
from tests.tools.addons import addon
from tests.tools.postgres import new_address

StreamAccount = addon("nights.account:StreamAccount")
entered_streams = addon("nights.ledger:entered_streams")
open_stream = addon("nights.ledger:open_stream")
reserve_night = addon("nights.ledger:reserve_night")
stream_status = addon("nights.ledger:stream_status")

FILE, SAYS = '["/srv/Erika Mustermann/card.toml", "/srv"]', '["/srv/{class}", ["ill", "well"]]'
Charge = Callable[..., object]


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """Return a new ledger, in each kind of database, with 1-GDP for two populations."""
    return _with_budgets(init_ledger(new_address(request.param, tmp_path)))


@pytest.fixture
def lite(tmp_path: Path) -> Ledger:
    """Return the same in a SQLite file."""
    return _with_budgets(init_ledger(tmp_path / "ledger.sqlite"))


def _with_budgets(book: Ledger) -> Ledger:
    for population in ("ward", "zone"):
        book.set_budget(population, GDP(1.0))
    return book


def release(
    book: Ledger,
    population: str = "ward",
    *declared: str,
    name: str = "ward",
    run_key: str = "2026-03-01",
    images: bytes = b"images",
    beside: bool = True,
) -> object:
    """Charge a release."""
    return book.reserve(
        population,
        f'{{"name": "{name}"}}',
        run_key,
        contents={"all classes": book.digest([images])},
        cost=GDP(0.1),
        declared=declared,
        beside=beside,
    )


def stream(
    book: Ledger,
    population: str = "ward",
    *declared: str,
    name: str = "ward",
    follows: str | None = None,
    beside: bool = True,
) -> StreamAccount:
    """Open a stream."""
    return open_stream(
        book,
        population,
        name,
        "query",
        horizon=9,
        cost=GDP(0.1),
        declared=declared,
        follows=follows,
        beside=beside,
    )


def spent(book: Ledger) -> list[int]:
    """Return how many charges each account has."""
    return [row.releases for row in book.show()]


@pytest.mark.parametrize("second", [release, stream])
@pytest.mark.parametrize("first", [release, stream])
def test_declared_images_have_one_population(ledger: Ledger, first: Charge, second: Charge) -> None:
    """In either order, by either text, whatever the images: refused, and nothing is charged."""
    first(ledger, "ward", FILE, SAYS)
    for declared in ((FILE, SAYS), (FILE, "another"), ("another", SAYS)):
        with pytest.raises(LedgerError, match="under population 'ward' before, found 'zone'"):
            second(ledger, "zone", *declared)
        with pytest.raises(LedgerError, match="nothing was charged"):
            ledger.check_declared("zone", declared)
    assert spent(ledger) == [1, 0]
    second(ledger, "zone", "another", "another still")
    second(ledger, "ward", FILE, SAYS, name="other")
    ledger.check_declared("ward", (FILE, SAYS))
    assert spent(ledger) == [2, 1]


def test_what_is_declared_is_kept_under_the_key(lite: Ledger, tmp_path: Path) -> None:
    """No byte of the ledger and no line of its history shows it, and each ledger has its own."""
    release(lite, "ward", FILE, SAYS)
    stream(lite, "ward", FILE, SAYS, name="second")
    content = (tmp_path / "ledger.sqlite").read_bytes()
    for secret in (b"Mustermann", b"/srv", b"card.toml"):
        assert secret not in content
    assert "Mustermann" not in str(lite.history())
    with lite.transaction() as tx:
        mine = set(tx.state.declared)
        assert not any(mac in repr(tx.state.releases) for mac in mine)
    other = _with_budgets(init_ledger(tmp_path / "other.sqlite"))
    release(other, "ward", FILE, SAYS)
    with other.transaction() as tx:
        assert mine.isdisjoint(tx.state.declared)
        assert len(tx.state.declared) == len(mine) == 2


@pytest.mark.parametrize("same", [True, False])
def test_what_images_show_decides_no_refusal_of_another_population(
    lite: Ledger, same: bool
) -> None:
    """Equal contents of other folders are charged, as others are, and so are those of a night."""
    release(lite, "ward", FILE, SAYS)
    opened = stream(lite, "ward", FILE, SAYS, name="nights")
    reserve(lite, opened, "2026-03-01", [b"one", b"two"], ["0 a"] * 2)
    images = b"images" if same else b"others"
    assert release(lite, "zone", "elsewhere", images=images)
    other = stream(lite, "zone", "elsewhere", name="nights")
    units = [b"two", b"one"] if same else [b"three", b"four"]
    assert reserve(lite, other, "2026-03-01", units, ["0 a"] * 2)
    assert spent(lite) == [2, 2]


def test_the_owner_of_images_is_told_where_they_were_charged(ledger: Ledger) -> None:
    """Charges by content and streams by privacy units, of all populations, and no others."""
    release(ledger)
    release(ledger, "zone", run_key="tuesday")
    release(ledger, run_key="friday", images=b"others")
    found = ledger.charges_of([ledger.digest([b"images"]), ledger.digest([b"unknown"])])
    assert [(line.population, line.run_key) for line in found] == [
        ("ward", "2026-03-01"),
        ("zone", "tuesday"),
    ]
    one = stream(ledger, "zone", name="nights")
    two = stream(ledger, "zone", name="later", follows="nights")
    stream(ledger, "ward", name="empty")
    reserve(ledger, one, "2026-03-01", [b"one", b"two"], ["0 a"] * 2)
    reserve(ledger, two, "2026-03-01", [b"three"], ["0 a"])
    told = entered_streams(ledger, [b"one", b"three", b"four"])
    assert [(found.population, found.name, count) for found, count in told] == [
        ("zone", "nights", 2)
    ]
    assert entered_streams(ledger, [b"four"]) == ()
    assert ledger.charges_of([]) == ()


def test_a_night_declares_its_folder_too(ledger: Ledger) -> None:
    """A config that names another folder than before: of another population it is refused."""
    opened = stream(ledger, "ward", FILE)
    release(ledger, "zone", "zone's")

    def night(day: str, *declared: str) -> object:
        status = stream_status(ledger, "ward", "ward", day)
        assert status
        return reserve_night(
            ledger,
            opened,
            day,
            units=[day.encode()],
            labels=["0 a"],
            version=status.version,
            declared=declared,
        )

    with pytest.raises(LedgerError, match="under population 'zone' before, found 'ward'"):
        night("2026-03-01", "zone's")
    assert entered_streams(ledger, [b"2026-03-01"]) == ()
    assert night("2026-03-01", FILE, "moved")
    for charge in (release, stream):
        with pytest.raises(LedgerError, match="under population 'ward' before, found 'zone'"):
            charge(open_ledger(address(ledger)), "zone", "moved")
    assert spent(ledger) == [1, 1]


def address(book: Ledger) -> str:
    """Return the address of a ledger."""
    return book.database.url.render_as_string(False)


def test_a_release_is_not_paid_beside_a_stream_by_slip(ledger: Ledger) -> None:
    """Nor the same run under another name; what was paid before comes back at no cost."""
    paid = release(ledger, "ward", FILE, beside=False)
    with pytest.raises(LedgerError, match=r"paid for the same card .* 'ward', and one named 'new'"):
        release(ledger, "ward", FILE, SAYS, name="new", beside=False)
    release(ledger, "ward", "another card", name="new", beside=False)
    release(ledger, "ward", FILE, name="new", run_key="2026-03-02", beside=False)
    stream(ledger, "ward", FILE, name="nights")
    assert spent(ledger) == [4, 0]
    refusal = r"the stream 'nights' \(0 of 9 nights\), .* would cost μ = 0.1 more; nothing was"
    for name in ("ward", "nights"):
        with pytest.raises(LedgerError, match=refusal):
            release(ledger, "ward", FILE, name=name, run_key="2026-03-03", beside=False)
    with pytest.raises(LedgerError, match=refusal):
        ledger.check_charge("ward", GDP(0.1), "2026-03-03", beside=False)
    ledger.check_charge("ward", GDP(0.1), "2026-03-01", beside=False)  # it may be there already
    assert release(ledger, "ward", FILE, beside=False) == paid
    assert spent(ledger) == [4, 0]
    release(ledger, "zone", "elsewhere", run_key="2026-03-03", beside=False)
    release(ledger, "ward", FILE, run_key="2026-03-03")
    assert spent(ledger) == [5, 1]


def test_a_second_stream_is_not_paid_by_slip(ledger: Ledger) -> None:
    """Nor one beside releases; one that follows is at no cost, and one that is open goes on."""
    one = stream(ledger, "ward", FILE, beside=False)
    with pytest.raises(
        LedgerError, match=r"stream 'ward', and the stream 'new' would cost μ = 0.1"
    ):
        stream(ledger, "ward", "another card", name="new", beside=False)
    with pytest.raises(LedgerError, match="nothing was charged"):
        stream_status(ledger, "ward", "new", "2026-03-01", cost=GDP(0.1), beside=False)
    assert stream(ledger, "ward", FILE, beside=False) == one
    stream(ledger, "ward", FILE, name="next", follows="ward", beside=False)
    assert spent(ledger) == [1, 0]
    stream(ledger, "ward", FILE, name="new")
    release(ledger, "zone", "elsewhere")
    with pytest.raises(LedgerError, match=r"paid for 1 release, the last 'ward' of run 2026-03-01"):
        stream(ledger, "zone", "elsewhere", beside=False)
    stream(ledger, "zone", "elsewhere")
    assert spent(ledger) == [2, 2]


def test_a_stream_that_ended_stands_in_nobody_s_way(lite: Ledger, tmp_path: Path) -> None:
    """Where a backup ended it, another is opened without more words."""
    stream(lite, "ward", FILE)
    backup = (tmp_path / "ledger.sqlite").read_bytes()
    lite.set_budget("third", GDP(1.0))
    (tmp_path / "ledger.sqlite").write_bytes(backup)
    assert confirm_restored(tmp_path / "ledger.sqlite")
    stream(lite, "ward", FILE, name="anew", beside=False)
    with pytest.raises(LedgerError, match="the stream 'anew'"):
        release(lite, "ward", FILE, beside=False)
