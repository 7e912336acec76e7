"""The signing key: one a ledger, always the same, of which the public half alone is printed."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from covdp.cli import main
from covdp.ledger import init_ledger, open_ledger
from covdp.ledger.keys import fingerprint


def test_each_ledger_has_a_key_of_its_own_that_stays(tmp_path: Path) -> None:
    """It is the same whenever the ledger is opened, and another in another ledger."""
    first = init_ledger(tmp_path / "a.sqlite").signing_key().private_bytes_raw()
    assert open_ledger(tmp_path / "a.sqlite").signing_key().private_bytes_raw() == first
    assert init_ledger(tmp_path / "b.sqlite").signing_key().private_bytes_raw() != first


def test_the_public_half_is_printed_as_other_programs_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """OpenSSL's PEM, below the fingerprint that people compare, and nothing secret."""
    book = init_ledger(tmp_path / "a.sqlite")
    capsys.readouterr()
    main(["ledger", "key", "--ledger", str(tmp_path / "a.sqlite")])
    printed = capsys.readouterr().out
    public, key = load_pem_public_key(printed.encode()), book.signing_key()
    key_bytes = key.public_key().public_bytes_raw()
    assert public == key.public_key()
    assert printed.startswith(f"fingerprint {fingerprint(key_bytes)}\n")
    for secret in (book.key, key.private_bytes_raw()):
        assert secret.hex() not in printed
