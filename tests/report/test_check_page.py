"""The page of a check: what its headline says, and which columns its table of classes has."""

from types import SimpleNamespace
from typing import Any

import pytest

from covdp.privacy import GDP, best_test
from covdp.report.check_page import account, headline, predictions
from covdp.report.page import table_of

LARGE = ("Prediction: usable for large differences: a.", "Error: 30 %.")
NONE = ("Prediction: perhaps usable for large differences: b.", "Error: 90 %.")


def previewed(
    *use: tuple[str, ...], persons: int | None = None, notes: tuple[str, ...] = ()
) -> Any:
    """Return what a page reads of a check of one class."""
    row = SimpleNamespace(name="a", images=7, persons=persons, low=1.0, high=9.0)
    return SimpleNamespace(classes=(row,), uses=("nothing",), use=use, decisions=(), notes=notes)


def test_a_headline_has_the_predictions_and_the_list_all_numbers() -> None:
    """Of classes of one use all is in the headline; of several uses the list has the rest."""
    assert headline(previewed(LARGE)).text == " ".join(["Nothing to mend.", *LARGE])
    assert predictions(previewed(LARGE)) == []
    several = previewed(LARGE, NONE)
    assert headline(several).text == f"Nothing to mend. {LARGE[0]} {NONE[0]}"
    assert [x.text for x in predictions(several)] == [" ".join(LARGE), " ".join(NONE)]
    assert headline(previewed(notes=("Copies.",))).text == "Nothing to mend. Copies."


def test_the_promise_is_that_of_all_classes_of_a_person() -> None:
    """Not the cost of one class: a person who counts in two is promised √2·μ."""
    config = SimpleNamespace(unit="person", cost=GDP(0.5), promise=GDP(0.5**0.5), hardened=True)
    said = account(SimpleNamespace(config=config, would="release", account=""))["Protected"]
    assert said.startswith("One person, with all images of that person; ")
    assert f"at most {best_test(GDP(0.5**0.5), hardened=True)} %." in said


@pytest.mark.parametrize("persons", [None, 3])
def test_only_persons_have_a_column(persons: int | None) -> None:
    """A column without any content is left out."""
    table = table_of("check", "classes", previewed(persons=persons))
    assert table is not None
    assert ("Persons" in table["heads"]) == (persons is not None)
    assert {len(line) for line in table["lines"]} == {len(table["heads"])}
