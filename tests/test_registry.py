"""Registries: what is ours comes first, and what a package cannot deliver harms nobody else."""

from collections.abc import Mapping

import pytest

from covdp import registry
from covdp.errors import ConfigError, DatasetError, MemberWarning
from covdp.registry import Address, Later, Registry, at


def with_packages(monkeypatch: pytest.MonkeyPatch, members: Mapping[str, str]) -> Registry[object]:
    """Return a registry beside which a package brings some members."""
    places = {name: Address(*place.split(":"), "toys 0.1") for name, place in members.items()}
    monkeypatch.setattr(registry, "_of_packages", lambda: found)
    found = {"numbers": places}
    ours = {"one": 1, "two": at("math:tau"), "three": Later(lambda: 3)}
    return Registry("numbers", ours, word="number")


def test_nothing_is_imported_or_made_before_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names, their order and their number are known of members that nobody can import."""
    numbers = with_packages(monkeypatch, {"four": "no_such_module:FOUR"})
    assert [*numbers] == ["one", "two", "three", "four"]
    assert ("four" in numbers, "five" in numbers, len(numbers)) == (True, False, 4)
    assert numbers.own() == {"one", "two", "three"}
    assert (numbers["one"], numbers["two"], numbers["three"]) == (1, pytest.approx(6.2831853), 3)


def test_a_package_takes_no_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is what the name means, imported or not; the other is named where all are listed."""
    numbers = with_packages(monkeypatch, {"two": "math:pi", "three": "math:pi", "pi": "math:pi"})
    with pytest.warns(MemberWarning, match=r"package toys 0\.1 has a name of ours; it is left out"):
        everything = dict(numbers.items())
    assert [*everything] == ["one", "two", "three", "pi"]
    assert everything["two"] != everything["pi"]
    assert everything["three"] == 3
    assert numbers.own() == {"one", "two", "three"}  # also once the package's is imported
    assert dict(numbers.items()) == everything  # and says so once


def test_what_cannot_be_imported_is_left_out_once_it_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its name it is refused in one line; in a list the others are there."""
    numbers = with_packages(monkeypatch, {"four": "math:FOUR", "pi": "math:pi"})
    with pytest.raises(ConfigError, match=r"number 'four' of package toys 0\.1 cannot be imported"):
        numbers["four"]
    with pytest.warns(MemberWarning, match="number 'four'"):
        assert [*numbers.items()][-1][0] == "pi"
    assert [*numbers] == ["one", "two", "three", "pi"]


def test_a_file_of_ours_at_fault_is_not_left_out() -> None:
    """A card that cannot be read is an error of whoever lists the cards, not one card less."""

    def read() -> object:
        raise DatasetError("card.toml: key 'clases' is not known")

    with pytest.raises(DatasetError, match="clases"):
        Registry("cards", {"card": Later(read)}).values()


def test_a_member_that_was_set_or_removed_is_so_for_the_process() -> None:
    """As in a dictionary, whatever stands elsewhere."""
    numbers = Registry[object]("numbers", {"two": at("math:tau")})
    numbers["two"] = 2
    assert (numbers["two"], numbers.address("two")) == (2, None)
    del numbers["two"]
    assert "two" not in numbers
    with pytest.raises(KeyError):
        numbers["two"]
    with pytest.raises(KeyError):
        del numbers["two"]
