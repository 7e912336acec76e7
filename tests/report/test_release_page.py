"""The page of a release: what it says is what the committed document and the bounds say."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_documents import document_of

from covdp.descriptors import DESCRIPTORS
from covdp.errors import ConfigError
from covdp.ledger import Ledger, init_ledger
from covdp.privacy import GDP, ZCDP, Budget, best_test, convert, for_group, protects, success
from covdp.privacy.rounding import digits_down, digits_up
from covdp.publish import load_release, release_once
from covdp.report import build_release_report

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["well", "ill", "rare"]\n'
CONFIG = """\
name = "nightly"
population = "ward"
dataset = "ward.toml"
labels = "public"
run_key = "monday"
budget = 0.5
"""


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """Make a folder with 9, 8 and 1 images of three classes, and their card."""
    images = np.random.default_rng(0).integers(0, 256, (18, 28, 28), dtype=np.uint8)
    labels = np.repeat([0, 1, 2], [9, 8, 1]).astype(np.uint8)
    np.savez(tmp_path / "ward.npz", train_images=images, train_labels=labels)
    (tmp_path / "ward.toml").write_text(CARD)
    return tmp_path


def released(ward: Path, lines: str, total: Budget = GDP(9.0)) -> tuple[bytes, Ledger]:  # noqa: B008
    """Release once with a config of `CONFIG` and `lines`; return the document and the ledger."""
    keys = tuple(line.split(" = ")[0] for line in lines.splitlines())
    first = "".join(line for line in CONFIG.splitlines(True) if not line.startswith(keys or "\0"))
    (ward / "release.toml").write_text(first + lines)
    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward", total)
    return release_once(load_release(ward / "release.toml"), book, ward), book


def words(document: dict[str, Any], folder: Path) -> str:
    """Return the page's text, tags taken out and spaces made single."""
    page = build_release_report(document_of(document), folder / "page.html").read_text(
        encoding="utf-8"
    )
    body = re.sub(r"(?s)<(script|style).*?</\1>", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.mark.parametrize(
    ("lines", "cost"),
    [
        ("", GDP(0.5)),
        ('definition = "zcdp"\n', ZCDP(0.5)),
        ('noise = "float"\n', GDP(0.5)),
    ],
    ids=["gdp", "zcdp", "float"],
)
def test_the_page_says_what_one_person_risks(ward: Path, lines: str, cost: Budget) -> None:
    """The figure of the release, in the page and in the statement, is the bound of its cost.

    Of certified noise that is what its ρ allows, with the figure of ideal noise beside it; noise in
    floats says that all is in theory, and is not called exact.
    """
    content, _ = released(ward, "smallest_class = 1\n" + lines, type(cost)(9.0))
    document = json.loads(content)
    text = words(document, ward)
    leading = best_test(cost, "float" not in lines)
    assert f"is right with a probability of at most {leading} %." in text
    assert f"at most {leading} % of cases" in dict(document["statement"])["In plain words"]
    assert text.startswith("nightly, ")  # of several releases of a population each has its name
    assert "Every number on this page" not in text
    assert "names and number of the classes, images of each class" in text
    assert "float" in lines or "in theory" not in text
    assert ("Not safe to publish: the noise was drawn in doubles." in text) == ("float" in lines)
    assert ("Not fit to leave: noise was drawn in doubles" in text) == ("float" in lines)
    assert ("are made to leave. They hold" in text) == ("float" not in lines)
    adds = "Squares of μ" if isinstance(cost, GDP) else "Values of ρ"
    assert f"{adds} add up. To repeat run monday is free" in text
    if "float" in lines:
        assert "This figure is for noise of real numbers, and the noise was drawn in" in text
        assert "This noise was drawn in doubles." in text
        assert "Rely on these" not in text
        assert "Certified for what was spent" not in text
    elif isinstance(cost, GDP):
        rho = max(row["rho"] for row in document["classes"])
        assert success(ZCDP(rho)) == leading != success(cost)
        assert f"as a computer draws it (zCDP, ρ = {digits_up(rho, 6)})" in text
        real = f"also has μ-GDP, with {success(cost)} %, and (ε, δ). The figures of μ-GDP"
        assert real in text


@pytest.mark.parametrize("budget", [3.0, 6.0])
def test_what_protects_nobody_is_not_fit_to_leave(ward: Path, budget: float) -> None:
    """On either side of the budget at which 99 of 100 attacks succeed."""
    content, _ = released(ward, f"smallest_class = 1\nbudget = {budget}\n")
    text, nobody = words(json.loads(content), ward), not protects(GDP(budget), True)
    assert nobody == (budget == 6.0)
    assert ("Not fit to leave: at this budget nobody is protected." in text) == nobody
    assert ("are made to leave. They hold" in text) == (not nobody)


def test_a_person_with_several_images_is_told_their_own_figure(ward: Path) -> None:
    """With images_per_person the page and the statement add the bound for all of one person's."""
    content, _ = released(ward, "smallest_class = 1\nimages_per_person = 3\n")
    document = json.loads(content)
    text = words(document, ward)
    together = best_test(for_group(GDP(0.5), 3), True)
    assert any("at most 3 images a person" in line for _, line in document["statement"])
    assert together != success(GDP(0.5))
    assert f"right in at most {together} % of cases" in text
    assert f"of 3 images of one person, if all had certified noise {together} %" in text
    one = f"which of the two was used {best_test(GDP(0.5), True)} % no more than for all images of"
    assert one in text
    assert f"all images of one patient {together} % {together} %" in text
    document["settings"] |= {"unit": "person", "images_per_person": None, "classes_per_person": 1}
    text = words(document, ward)
    assert "of 3 images of one person, if" in text
    assert "see “How much”" in text
    assert "Protected: one person, with all images of that person." in text
    assert "Who One person, with all images of that person." in text
    assert "no more about one person than the release does" in text
    assert "number of the classes, persons of each class" in text
    assert "the mean of these persons" in text or "Region of" not in text


@pytest.mark.parametrize(("lines", "group"), [("", 1), ("images_per_person = 2\n", 2)])
def test_the_page_says_how_the_account_stands(ward: Path, lines: str, group: int) -> None:
    """Two nights of g·0.5 out of μ = 3: total, spent, left, how many more, and what all mean."""
    lines = "smallest_class = 1\n" + lines
    released(ward, lines, GDP(3.0))
    content, book = released(ward, lines.replace("\n", '\nname = "again"\n', 1), GDP(3.0))
    document, (row,) = json.loads(content), book.show("ward")
    assert row.spent is not None
    assert row.spent.mu == pytest.approx(group * 0.5 * 2**0.5)
    text = words(document, ward)
    left = {1: 34, 2: 7}[group]
    assert f"Lasts for {left} more like this" in text
    assert f"Paid for this release μ = {group * 0.5:g}" in text
    total = digits_up(row.epsilon_budget, 6)
    assert f"May be spent in all μ = 3 (ε = {total} at δ = 10⁻⁵)" in text
    assert f"Spent, this one included μ = {digits_up(row.spent.mu, 6)}" in text
    everything = best_test(row.spent, True)
    assert everything != best_test(for_group(GDP(0.5), group), True)
    assert f"at most {everything} % of cases" in text
    assert (
        f"Certified for what was spent ρ = {digits_up(convert(row.spent, ZCDP).rho, 6)} in zCDP"
        in text
    )
    assert f"the best attacker is then right in at most {everything} % of cases" in text


@pytest.mark.parametrize("first", [1, 2])
def test_all_releases_together_are_told_for_the_fewest_images(ward: Path, first: int) -> None:
    """The account's total bounds what is told of 3 images only if every release counted 3."""
    lines = "smallest_class = 1\nimages_per_person = {}\n"
    released(ward, lines.format(first), GDP(9.0))
    content, book = released(ward, lines.format(3), GDP(9.0))
    (row,) = book.show("ward")
    assert row.spent is not None
    text = words(json.loads(content), ward)
    images = {1: "1 image", 2: "2 images"}[first]
    about = {1: "", 2: ", of 2 images of one person"}[first]
    together = f"is right with at most {best_test(row.spent, True)} %."
    noise = ", if all had certified noise, the attacker"
    assert f"all releases so far{about}{noise} {together}" in text
    assert f"Some of these releases counted at most {images} of a person." in text


@pytest.mark.parametrize("lines", ["", 'noise = "float"\n'], ids=["hardened", "float"])
def test_every_draw_is_one_line_of_the_table(ward: Path, lines: str) -> None:
    """Class, step, sensitivity, σ and ρ of each draw stand in a row; a class ends in its sum.

    Where nothing is certified there is no ρ. All are rounded to the private side.
    """
    document = json.loads(released(ward, "smallest_class = 1\n" + lines)[0])
    text = words(document, ward)
    assert f"Features {DESCRIPTORS['oct5'].formula} Manifold" in text
    for row in document["classes"]:
        assert len(row["costs"]) > 2
        for step in row["costs"]:
            figures = f"{digits_up(step['sensitivity'], 6)} {digits_down(step['sigma'], 6)}"
            assert f"{row['name']} {step['step']} {figures} {certified(step)}" in text
        assert f"{row['name']} all together {certified(row)}" in text


def certified(paid: dict[str, Any]) -> str:
    """Return ρ as the page writes it."""
    return "none" if paid["rho"] is None else digits_up(paid["rho"], 6)


@pytest.mark.parametrize("least", [1, 2, 9])
def test_small_classes_are_refused_unpaid_unless_accepted(ward: Path, least: int) -> None:
    """A class of fewer images than smallest_class, two by default, is one line and no charge."""
    if least == 1:
        document = json.loads(released(ward, "smallest_class = 1\n")[0])
        assert [row["n"] for row in document["classes"]] == [9, 8, 1]
        return
    line = "" if least == 2 else f"smallest_class = {least}\n"
    who, n = ("rare", 1) if least == 2 else ("ill", 8)
    with pytest.raises(ConfigError, match=f"'{who}' has {n} of the {least} .*smallest_class = {n}"):
        released(ward, line)
    assert init_ledger(ward / "ledger.sqlite").show("ward")[0].releases == 0


@pytest.mark.parametrize(
    ("mechanism", "labels"), [("auto", "public"), ("auto", "secret"), ("ewg", "public")]
)
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.02, 80.0, 1e9])
def test_a_release_of_any_budget_has_a_page(
    ward: Path, mechanism: str, labels: str, mu: float
) -> None:
    """It is paid before its page is made, so no noise, and no lack of it, may end that."""
    lines = f'mechanism = "{mechanism}"\nsmallest_class = 1\n'
    changed = CONFIG.replace("0.5", repr(mu)).replace("public", labels)
    (ward / "release.toml").write_text(changed + lines)
    book = init_ledger(ward / "ledger.sqlite")
    book.set_budget("ward", GDP(mu))
    document = json.loads(release_once(load_release(ward / "release.toml"), book, ward))
    text = words(document, ward)
    assert "nan" not in text.lower().split()
    assert "inf" not in text.split()
    assert ("At this budget nobody is protected" in text) == (mu > 3.0)
