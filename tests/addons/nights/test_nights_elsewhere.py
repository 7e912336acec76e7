"""Nights as users meet them: the command, the page, and a ledger in PostgreSQL."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from sample_nights import CONFIG, Ward, reserve, tonight

from covdp.addons.nights.ledger import commit_night, open_stream, stored_nights, unit_digest
from covdp.addons.nights.stream import window_mean
from covdp.addons.nights.sums import sums_folder
from covdp.addons.nights.transcript import read_histories
from covdp.cli import main
from covdp.errors import LedgerError
from covdp.ledger import init_ledger
from covdp.privacy import GDP
from covdp.publish import read_document
from tests.addons.nights.documents import next_sums
from tests.tools.postgres import direct, new_address

pytestmark = pytest.mark.usefixtures("noise_in_doubles")


@pytest.mark.slow
def test_the_command_and_the_page_of_a_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`covdp release` settles a night, and its page says what the document does, in one place each.

    Asked again it gives the same bytes; a second night says that a class without units has no mean.
    """
    ward, out = Ward(tmp_path), tmp_path / "out"
    ward.pay()
    ward.put(well=5)
    tokens = ["release", "--config", str(tmp_path / "night.toml"), "--data-root", str(tmp_path)]
    tokens += ["--out", str(out), "--ledger", str(tmp_path / "ledger.sqlite"), "--run-key"]
    assert main([*tokens, "2026-03-01", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    stream = {"nights": 1, "horizon": 40, "nights_left": 39, "latest": "2026-03-01"}
    assert said["stream"].items() >= stream.items()
    paid = {"definition": "gdp", "mu": 20.0}
    assert (said["charged"], said["already_released"], said["left"]) == (paid, False, None)
    first = Path(said["release"]).with_suffix(".json").read_bytes()
    assert main([*tokens, "2026-03-01"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "already released, nothing charged stream nightly: 1 of 40 nights" in words
    assert "39 more at no further cost" in words
    assert Path(said["release"]).with_suffix(".json").read_bytes() == first
    ward.put(well=2)
    assert main([*tokens, "2026-03-02"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "nothing charged: μ = 20 was paid once, for all nights of the stream" in words
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page == (out / "release" / "nightly-2026-03-02.html").read_text(encoding="utf-8")
    paths = sorted((out / "release").glob("*.json"))
    document = json.loads(paths[-1].read_bytes())
    found, _ = read_histories(map(read_document, paths))
    last = window_mean(found.stream, found.nights, 1)
    assert last
    text = " ".join(
        unescape(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page, flags=re.S)).split()
    )
    well, _ = document["classes"]
    for words in (
        "success of an attacker, at most; a guess succeeds in 50 % 100.0 %",
        "for one image, for ever μ = 20",
        "nights so far 2 nights left, at no further cost 38 images tonight 2 images so far 7",
        f"Clipping / usual difference well 7 (2 tonight) {well['predicted_error']:.3g}",
        "ill 0 (0 tonight) no mean yet – – –",
        f"ill: {document['classes'][1]['no_point']}.",
        f"well last night 2 2 {np.sqrt(np.trace(last.covariance)):.3g}",
    ):
        assert words in text
    for label, promise in document["statement"]:
        assert f"{label} {' '.join(promise.split())}" in text


def test_nights_with_a_ledger_in_postgresql(tmp_path: Path) -> None:
    """Sums lie beside the marker, its user's alone, and are made again; streams follow.

    Of two ledgers with nights of one name each has its own sums.
    """
    ward = Ward(tmp_path / "ward", address=new_address("postgresql", tmp_path))
    ward.pay()
    for day in (1, 2):
        ward.put(well=4, ill=5)
        ward.settle(day)
    place = sums_folder(ward.ledger, ward.stream)
    assert not place.is_relative_to(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    expected = next_sums(ward, 3)
    for path in place.glob("3-*"):
        path.unlink()
    again = next_sums(ward, 4)
    assert [[rows[:-1] for rows in series] for series in again] == [list(one) for one in expected]
    last = ward.night(4)
    other = Ward(tmp_path / "other", address=new_address("postgresql", tmp_path))
    other.pay()
    other.put(well=4, ill=5, seed=1)
    other.settle(1)
    assert not sums_folder(other.ledger, other.stream).is_relative_to(place.parent)
    short = '[stream]\nhorizon = 2\nopening = 80.0\nfollows = "nightly"\n'
    ward.write(config=CONFIG.replace('"nightly"', '"onwards"'), stream=short)
    ward.put(ill=5)
    found = ward.night(5)
    assert tonight(found) == [0, 5]
    well, ill = found["classes"]
    assert (well["point"], well["joined"]["n"], ill["joined"]["n"]) == (None, 8, 15)
    np.testing.assert_allclose(well["joined"]["point"], last["classes"][0]["point"], rtol=1e-9)
    assert ward.ledger.show("ward-7")[0].spent == GDP(20.0)


def test_what_a_night_costs_in_postgresql_is_what_is_new(tmp_path: Path) -> None:
    """Its claims are found by their index, however many there are, and one that is lost is noticed.

    Counted are the rows that the server says it has read one after another.
    """
    address = new_address("postgresql", tmp_path)
    ledger = init_ledger(address)
    ledger.set_budget("ward", GDP(1.0))
    stream = open_stream(ledger, "ward", "nightly", "q", horizon=9, cost=GDP(1.0))
    schema = address.rsplit("%3D", 1)[1]

    def read() -> int:
        with direct() as connection:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            row = connection.execute(
                "SELECT seq_tup_read FROM pg_stat_user_tables "
                "WHERE schemaname = %s AND relname = 'covdp_claims'",
                [schema],
            ).fetchone()
        assert row
        return int(row[0])

    def night(number: int, units: range) -> None:
        labels = ["0 well"] * len(units)
        names = [b"%d" % unit for unit in units]
        held = reserve(ledger, stream, f"2026-03-{number:02d}", names, labels)
        assert held is not None
        commit_night(ledger, held, b"{}")

    night(1, range(4000))
    before = read()
    for number in (2, 3, 4):
        night(number, range(10_000 * number, 10_000 * number + 10))
    assert read() - before < 4000
    assert len(stored_nights(ledger, stream)) == 4
    with direct() as connection:
        lost = unit_digest(ledger.key, b"17")
        connection.execute(f"DELETE FROM {schema}.covdp_claims WHERE unit = %s".encode(), [lost])
    with pytest.raises(LedgerError, match="claimed were changed or lost"):
        night(5, range(17, 18))
