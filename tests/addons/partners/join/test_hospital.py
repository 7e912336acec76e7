"""Joint releases from approval to documents: charges, breaks, refusals, commands.

No test here draws a conclusion from noise; all hospitals stand in one process.
"""

import itertools
import json
import sqlite3
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from PIL import Image
from pydantic import ValidationError

from covdp import MANIFOLDS, domain
from covdp.addons.partners.join import account, hospital
from covdp.addons.partners.join.hospital import (
    _led,
    approvals,
    own_fingerprint,
    take_part,
    withdraw,
)
from covdp.addons.partners.join.schema import JointDocument
from covdp.addons.partners.join.shares import JointError
from covdp.addons.partners.join.study import Study, read_study
from covdp.addons.partners.passport.checking import verified
from covdp.addons.partners.passport.verify import UnverifiedError
from covdp.cli import main
from covdp.errors import BudgetError, ConfigError, CovdpError, LedgerError
from covdp.ledger import Ledger, confirm_restored, init_ledger, open_ledger
from covdp.mean.plan import STEP_NAMES
from covdp.mean.public_model import default_prior
from covdp.mean.release import Labels
from covdp.mean.rounds import default_shares, step_costs
from covdp.privacy import GDP
from covdp.publish import read_document
from covdp.report import build_release_report
from covdp.schema import json_schema, serialised
from tests.addons.partners.join.hub import CLASSES, Hub, Killed, Line, study_of
from tests.addons.partners.join.wards import (
    NAMES,
    approve_at,
    entries_of,
    run_all,
    run_here,
    write_hospitals,
)
from tests.tools.patience import until

TURNS = 5 + 2 * len(STEP_NAMES) * len(CLASSES)
"""Turns of an attempt: hello, transcript, count, total, two a step, end."""

SIMULATED = "consistent; signer unknown; not fit to leave: simulated"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Ledger]:
    """Return a folder of three hospitals, and their ledger."""
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COVDP_STORE", str(tmp_path / "store"))
    return tmp_path, write_hospitals(tmp_path)


def approved(place: tuple[Path, Ledger], **changes: Any) -> Study:
    """Return a study that all hospitals have approved."""
    study = study_of(fingerprints=dict.fromkeys(NAMES, own_fingerprint(place[1])), **changes)
    for name in study.hospitals:
        approve_at(*place, study, name)
    return study


def spent(book: Ledger) -> dict[str, list[float]]:
    """Return the charges of each account."""
    return {row.population: [cost.mu for cost in row.costs] for row in book.show()}  # type: ignore[union-attr]


PRIOR = default_prior(domain("oct5", height=28, width=28), MANIFOLDS["spd-log-euclidean"](k=5))
ONCE = {name: [1.0] for name in NAMES}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Return the documents of a joint release at each hospital."""
    folder = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVDP_LEDGER", str(folder / "ledger.sqlite"))
        paths = run_all(approved((folder, write_hospitals(folder))).digest)
    return tuple(paths[name] for name in NAMES)


def test_each_hospital_has_the_release(place: tuple[Path, Ledger]) -> None:
    """Same classes to the last byte; who took part, what was promised, and one charge."""
    study = approved(place)
    paths = run_all(study.digest)
    documents = [json.loads(paths[name].read_bytes()) for name in NAMES]
    assert len({json.dumps(one["classes"], sort_keys=True) for one in documents}) == 1
    assert len({one["joint"]["opened"] for one in documents}) == 1
    assert [one["joint"]["hospital"] for one in documents] == list(NAMES)
    assert documents[0]["settings"]["total"] == 3 * 440
    assert documents[0]["joint"]["noise"] == pytest.approx(1.5**0.5)
    model = dict(documents[0]["statement"])["Trust model"]
    assert model.startswith("simulated: all hospitals have the key of one ledger")
    steps = step_costs(GDP(1.0), 0, default_shares(PRIOR, few=False), dim=15, labels=Labels(1320))
    for row in documents[0]["classes"]:
        told = [cost["sigma"] for cost in row["costs"]]
        assert told == pytest.approx([1.5**0.5 * step.sigma for step in steps], rel=1e-9)
    assert all(row["rho"] <= 0.5 * (1 + 1e-9) for row in documents[0]["classes"])
    assert all(row["mu"] == 1.0 for row in documents[0]["classes"])
    statement = dict(documents[0]["statement"])
    shown = statement["Hospitals that show their noise"]
    assert shown.endswith(
        "where k hospitals show it, it is √(2/(3 − k)) times 1-GDP, as only the noise of 3 − k "
        "hospitals is left. For k = 2 that is 1.41422-GDP. Each hospital knows its own noise"
    )
    assert "Then the μ of these hospitals add up" in statement["One person in several hospitals"]
    assert "1,320 images together" in statement["Released together by"]
    assert spent(place[1]) == ONCE
    assert isinstance(read_document(paths["west"]), JointDocument)
    faults = Draft202012Validator(json_schema()).iter_errors(documents[0])
    assert [error.message for error in faults] == []
    own = serialised(read_document(paths["north"]))
    assert own == paths["north"].read_bytes()
    assert verified(paths["south"], None)[0] == SIMULATED
    unsigned = {key: value for key, value in documents[1].items() if key != "signature"}
    forged = paths["south"].with_name("forged.json")
    for change in ({"noise": 1.1}, {"colluders": 0}):
        forged.write_text(json.dumps({**unsigned, "joint": {**unsigned["joint"], **change}}))
        with pytest.raises(UnverifiedError, match="noise of a total is not what follows"):
            verified(forged, None)
    page = paths["west"].with_suffix(".html").read_text(encoding="utf-8")
    assert all(print_ in page for print_ in study.fingerprints.values())
    assert "population west, together with north and south, 1,320 images" in page
    assert "Images of this hospital are of " in page
    assert "images of all hospitals, in 2 classes" in page
    assert "only totals of all were opened (Kairouz et al. 2021)" in page
    assert "an event of probability below 10⁻¹²" in page  # of shares on steps of 2⁻⁴⁰


@pytest.mark.parametrize(
    ("place_of", "value"),
    [
        *((("name",), "other"), (("label",), 1), (("n",), 9), (("n_sd",), 0.0), (("mu",), 0.1)),
        *((("rho",), 0.1), (("predicted_error",), 0.0), (("coordinates", 3), 0.5)),
        *((("costs", 0, "rho"), 0.0), (("costs", 1, "sigma"), 99.0), (("costs", 2, "step"), "x")),
        *((("point", 1), [0.0] * 5), (("manifold",), "spd-log-cholesky"), (("costs",), [])),
        *((("observed", "sigma"), 1e-9), (("observed", "n"), 10**9), (("observed", "axes"), [[0]])),
        *((("observed",), None), (("coordinates",), [1.0]), (("rho",), None), ((), None)),
    ],
    ids=str,
)
def test_what_a_hospital_signs_is_what_it_made_itself(
    released: tuple[Path, ...], place_of: tuple[Any, ...], value: Any
) -> None:
    """Classes that the leading hospital states otherwise are not taken, however they differ."""
    rows = json.loads(released[0].read_bytes())["classes"]
    own = json.dumps(rows).encode()
    rows[0]["coordinates"][0] *= 1.0 + 1e-12  # as another machine computes
    rows[0]["point"][0][0] *= 1.0 - 1e-12
    assert [row.class_name for row in _led(json.dumps(rows).encode(), own)] == list(CLASSES)
    part: Any = {"classes": rows}
    *way, last = ("classes", 0, *place_of)
    for key in way:
        part = part[key]
    part[last] = value
    with pytest.raises(JointError, match="made other means of the same totals"):
        _led(json.dumps(rows).encode(), own)


@pytest.mark.parametrize("turn", [*range(7), 11, 14, 15, TURNS - 2, TURNS - 1])
@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_killed_at_any_turn_it_goes_on(
    place: tuple[Path, Ledger], turn: int, *, answered: bool
) -> None:
    """One charge, shares that are drawn once, and one release of all, whoever was killed when."""
    study, dead = approved(place), NAMES[turn % len(NAMES)]
    run_all(
        study.digest,
        line=lambda hub, name: Dying(hub, name, turn if name == dead else -1, answered),
    )
    kept = {name: shares_of(place, study, name) for name in NAMES}
    paths = run_all(study.digest)
    documents = [json.loads(paths[name].read_bytes()) for name in NAMES]
    assert len({json.dumps(one["classes"], sort_keys=True) for one in documents}) == 1
    assert spent(place[1]) == ONCE
    for name in NAMES:
        after = shares_of(place, study, name)
        assert after[: len(kept[name])] == kept[name]
        assert len(after) == len(set(after)) == len(STEP_NAMES) * len(CLASSES)


@pytest.mark.parametrize("where", ["before the ledger knows", "after it knows", "published"])
def test_killed_between_two_writes_it_goes_on(
    place: tuple[Path, Ledger], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between noise and ledger, ledger and server, commit and page: one charge, one release."""
    study, real, calls = approved(place), hospital.keep, list[int]()

    def keep(*words: Any) -> bytes:
        calls.append(1)
        if len(calls) == 11 and where == "before the ledger knows":
            raise Killed
        content = real(*words)
        if len(calls) == 11 and where == "after it knows":
            raise Killed
        return content

    def die(*_: Any) -> Path:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(hospital, "keep", keep)
        if where == "published":
            patch.setattr(hospital, "publish", die)
        found = run_all(study.digest)
    assert any(isinstance(error, Exception) for error in found.values())
    kept = {name: shares_of(place, study, name) for name in NAMES}
    paths = run_all(study.digest)
    documents = [json.loads(paths[name].read_bytes()) for name in NAMES]
    assert len({json.dumps(one["classes"], sort_keys=True) for one in documents}) == 1
    assert spent(place[1]) == ONCE
    assert all(shares_of(place, study, x)[: len(kept[x])] == kept[x] for x in NAMES)
    assert all(paths[name].with_suffix(".html").exists() for name in NAMES)


class Dying(Line):
    """A line that breaks at a turn, before or after it is answered."""

    def __init__(self, hub: Hub, name: str, turn: int, answered: bool) -> None:
        super().__init__(hub, name)
        self.turns, self.last, self.answered = 0, turn, answered

    def __call__(self, kind: str, content: bytes) -> Any:
        """Return what all say, or break."""
        self.turns += 1
        if self.turns - 1 == self.last and not self.answered:
            raise Killed
        answer = super().__call__(kind, content)
        if self.turns - 1 == self.last:
            raise Killed
        return answer


def shares_of(place: tuple[Path, Ledger], study: Study, name: str) -> list[tuple[str, str]]:
    """Return the shares that a ledger keeps, by step."""
    kept = entries_of(place[1], study, name)
    return [(x, y) for x, y in kept.items() if x.startswith("share")]


@pytest.mark.parametrize("ending", ["lost", "changed", "older"])
def test_a_ledger_that_is_not_the_newest_says_no_word(
    place: tuple[Path, Ledger], ending: str
) -> None:
    """A share that is lost or changed, or a copy put back, which nobody accepts as it was."""
    study, file = approved(place), place[0] / "ledger.sqlite"
    run_all(study.digest, line=lambda hub, name: Dying(hub, name, 7, answered=False))
    older = file.read_bytes()
    run_all(study.digest, line=lambda hub, name: Dying(hub, name, 9, answered=False))
    if ending == "older":
        file.write_bytes(older)
    else:
        with closing(sqlite3.connect(file)) as book, book:
            last = "WHERE event LIKE '%\"share 2\"%'"
            changes = {"lost": f"DELETE FROM covdp_journal {last}"}
            changes["changed"] = f"UPDATE covdp_journal SET event = replace(event, '0', '1') {last}"
            assert book.execute(changes[ending]).rowcount == 3
    hub = Hub(NAMES)
    found = run_all(study.digest, hub=hub)
    assert [type(error) for error in found.values()] == [LedgerError] * 3
    assert not hub.seen
    if ending == "older":
        assert confirm_restored(file)
        found = run_all(study.digest, hub=hub)
        assert all("has not approved" in str(error) for error in found.values())
        with pytest.raises(LedgerError, match="was paid before"):
            approved(place)
        assert not hub.seen
        assert spent(open_ledger(file)) == ONCE


def test_two_jobs_of_a_study_come_one_after_the_other(place: tuple[Path, Ledger]) -> None:
    """The second has begun before the first draws, and goes on from where that was killed."""
    study, second, found = approved(place), Hub(NAMES), dict[str, Any]()

    def take_part_again() -> None:
        found.update(run_all(study.digest, ["south"], hub=second))

    waiting = threading.Thread(target=take_part_again)

    def waits() -> bool:
        stacks = map(traceback.extract_stack, sys._current_frames().values())
        return any("filelock" in frame.filename for frame in itertools.chain(*stacks))

    def begin(turn: str, name: str, said: Any) -> Any:
        if turn == "total" and not waiting.ident:
            waiting.start()
            until(waits)
        return said

    run_all(
        study.digest,
        hub=Hub(NAMES, begin),
        line=lambda hub, name: Dying(hub, name, 8 if name == "south" else -1, answered=False),
    )
    kept = shares_of(place, study, "south")
    assert len(kept) == 2
    found.update(run_all(study.digest, ("north", "west"), hub=second))
    waiting.join()
    documents = [json.loads(found[name].read_bytes()) for name in NAMES]
    assert len({json.dumps(one["classes"], sort_keys=True) for one in documents}) == 1
    assert shares_of(place, study, "south")[:2] == kept
    assert spent(place[1]) == ONCE


def test_withdrawn_before_the_first_word_it_is_given_back(place: tuple[Path, Ledger]) -> None:
    """The account is as before; approved again it is charged once; after a word it stays."""
    before = place[1].show()
    study = approved(place)
    for name in NAMES:
        withdraw(place[1], approvals(place[1], study.digest, name)[0])
    assert place[1].show() == before
    assert sum("given back" in line.text for line in place[1].history()) == 3
    assert not approvals(place[1])
    approved(place)
    run_all(study.digest, line=lambda hub, name: Dying(hub, name, 8, answered=False))
    for name in NAMES:
        with pytest.raises(LedgerError, match="stays charged"):
            withdraw(place[1], approvals(place[1], study.digest, name)[0])
    assert spent(open_ledger(place[0] / "ledger.sqlite")) == ONCE


def test_withdrawn_nothing_of_it_stays(place: tuple[Path, Ledger]) -> None:
    """The images may be of another population then, and no share of theirs is used again."""
    book, own = place[1], place[0] / "south" / "south.toml"
    study = study_of(fingerprints=dict.fromkeys(NAMES, own_fingerprint(book)))
    book.set_budget("other", GDP(2.0))
    text = own.read_text()
    own.write_text(text.replace('population = "south"', 'population = "other"'))
    mine = approve_at(*place, study, "south")
    withdraw(book, mine)
    with book.transaction(write=False) as tx:
        state = tx.state
        assert not any((state.releases, state.contents, state.declared, state.words))

    own.write_text(text)
    again = approve_at(*place, study, "south")
    assert entries_of(book, study, "south") == {}
    assert again.identity != mine.identity
    assert spent(book) == {"other": [], "north": [], "west": [], "south": [1.0]}

    account.keep(book, again.identity, "total", bytes)  # N is no word of images
    withdraw(book, again)
    again = approve_at(*place, study, "south")
    assert entries_of(book, study, "south") == {}
    account.keep(book, again.identity, "share 1", bytes)
    with pytest.raises(LedgerError, match="stays charged"):
        withdraw(book, again)


def test_of_what_was_withdrawn_other_charges_keep_what_they_declare(
    place: tuple[Path, Ledger],
) -> None:
    """Contents and declared images that another release has, too, stay known."""
    book = place[1]
    first, second = (
        study_of(id=x, fingerprints=dict.fromkeys(NAMES, own_fingerprint(book))) for x in "ab"
    )
    approve_at(*place, first, "south")
    with book.transaction(write=False) as tx:
        before = {key: dict(getattr(tx.state, key)) for key in ("contents", "declared", "accounts")}
    withdraw(book, approve_at(*place, second, "south"))
    with book.transaction(write=False) as tx:
        assert {key: dict(getattr(tx.state, key)) for key in before} == before


def test_a_study_that_was_withdrawn_says_no_word(place: tuple[Path, Ledger]) -> None:
    """Also where it is withdrawn while it runs."""
    study = approved(place)
    mine = approvals(place[1], study.digest, "south")[0]

    def lie(turn: str, name: str, said: Any) -> Any:
        if turn == "total" and approvals(place[1], study.digest, "south"):
            withdraw(place[1], mine)
        return said

    hub = Hub(NAMES, lie)
    found = run_all(study.digest, hub=hub)
    assert "withdrawn" in str(found["south"])
    assert not any(kind.startswith("step") for kind, _ in hub.seen)
    assert "has not approved" in str(run_all(study.digest)["south"])
    with pytest.raises(LedgerError, match="withdrawn"):
        account.keep(place[1], mine.identity, "share 1", bytes)


def test_images_are_pinned(place: tuple[Path, Ledger]) -> None:
    """Other images are refused at the study, and at another approval, and cost nothing."""
    study, images = approved(place), place[0] / "west" / "west-card.npz"
    images.write_bytes((place[0] / "south" / "south-card.npz").read_bytes())
    found = run_all(study.digest)
    assert isinstance(found["west"], LedgerError)
    assert "pinned" in str(found["west"])
    with pytest.raises(LedgerError, match="pinned"):
        approve_at(*place, study, "west")
    assert spent(place[1]) == ONCE


def test_persons_are_protected_together(place: tuple[Path, Ledger]) -> None:
    """Each person is one record of each of two classes, and pays in both."""
    rng, folder = np.random.default_rng(0), place[0]
    for name in NAMES:
        for label, person, image in itertools.product(CLASSES, range(9), range(2)):
            file = folder / name / "images" / label / f"p{person}" / f"{image}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (28, 28), dtype=np.uint8)).save(file)
        (folder / name / f"{name}-card.toml").write_text(
            f'kind = "folder"\nlocal = true\nchannels = 1\nclasses = {json.dumps(CLASSES)}\n'
            'path = "images"\npattern = "{class}/{person}/*.png"\nunit = "person"\n'
            "classes_per_person = 2\n"
        )
    study = approved(place, unit="person")
    paths = run_all(study.digest)
    documents = [json.loads(paths[name].read_bytes()) for name in NAMES]
    assert len({json.dumps(one["classes"], sort_keys=True) for one in documents}) == 1
    assert documents[0]["settings"]["total"] == 27
    assert dict(documents[0]["statement"])["Guarantee"] == "1.41422-GDP"
    assert {x: y[0] for x, y in spent(place[1]).items()} == pytest.approx(
        dict.fromkeys(NAMES, 2**0.5)
    )


def test_nothing_of_a_study_stands_beside_its_ledger(place: tuple[Path, Ledger]) -> None:
    """Which keeps the shares, and is readable by nobody else."""
    run_all(approved(place).digest)
    beside = [path for path in place[0].iterdir() if path.name.startswith(("ledger", "join"))]
    assert {path.name for path in beside} == {"ledger.sqlite", "ledger.sqlite.marker"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in beside)


def test_approved_twice_it_is_paid_once(place: tuple[Path, Ledger]) -> None:
    """Before and after its release, and where another version has approved it since."""
    study = approved(place)
    assert approved(place) == study
    run_all(study.digest)
    other = approvals(place[1])[0].identity
    account.keep(place[1], other, "approval", lambda: b'{"study": {"later": 1}}', anew=True)
    assert len(approvals(place[1])) == 2
    assert approved(place) == study
    assert len(approvals(place[1])) == 3
    assert spent(place[1]) == ONCE


def test_what_is_not_approved_takes_no_part(place: tuple[Path, Ledger]) -> None:
    """Nor what another version approved."""
    study = study_of()
    with pytest.raises(LedgerError, match="has not approved"):
        take_part(study.digest, "north", Line(Hub(NAMES), "north"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"size": 32}, "size"),
        ({"classes": ("a", "b")}, "classes"),
        ({"classes": CLASSES[:1]}, "classes"),
        ({"unit": "person"}, "unit"),
        ({"descriptor": "gauss6"}, "gauss6"),
        ({"descriptor": "oct6"}, "oct5"),
        ({"manifold": "sphere"}, "manifold"),
        ({"budget": 3.0}, "left"),
        ({"budget": 1e-5}, "do not fit"),
        ({"budget": 1e-9}, "budget"),
    ],
)
def test_terms_that_do_not_fit_cost_nothing(
    place: tuple[Path, Ledger], changes: Mapping[str, Any], told: str
) -> None:
    """One line, and no charge."""
    with pytest.raises(CovdpError) as refusal:
        approve_at(*place, study_of(**changes), "north")
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert spent(place[1]) == {name: [] for name in NAMES}
    assert not approvals(place[1])


@pytest.mark.parametrize(
    "line",
    [
        'labels = "public"',
        "[stream]\nhorizon = 100",
        'noise = "float"',
        'definition = "zcdp"',
        "shares = [0.2, 0.2, 0.2, 0.2, 0.2]",
    ],
)
def test_configs_that_do_not_fit_cost_nothing(place: tuple[Path, Ledger], line: str) -> None:
    """A stream, public labels, noise of floats, other plans."""
    config = place[0] / "north" / "north.toml"
    config.write_text(config.read_text() + line + "\n")
    with pytest.raises(ConfigError) as refusal:
        approve_at(*place, study_of(), "north")
    assert line.split("\n", 1)[0].strip("[]").split(" ")[0] in str(refusal.value)
    assert spent(place[1])["north"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"colluders": 3},
        {"colluders": -1},
        {"hospitals": ("north", "north", "west")},
        {"hospitals": ()},
        {"hospitals": ("north", "../x", "west")},
        {"budget": 0.0},
        {"budjet": 1.0},
        {"classes": ()},
    ],
)
def test_terms_that_are_none(changes: Mapping[str, Any]) -> None:
    """They are refused as they are read."""
    with pytest.raises((ValidationError, ConfigError)):
        study_of(**changes)


def test_one_letter_makes_another_study(place: tuple[Path, Ledger]) -> None:
    """The hospital that approved it is named, and nothing is opened."""
    study, other = study_of(), study_of(name="tissuf")
    for name in NAMES:
        approve_at(*place, other if name == "west" else study, name)
    assert study.digest != other.digest

    found = run_all(study.digest)
    assert isinstance(found["west"], LedgerError)
    assert "has not approved" in str(found["west"])


def test_a_ledger_without_budget_is_charged_nothing(place: tuple[Path, Ledger]) -> None:
    """Nor is it approved."""
    place[1].set_budget("west", GDP(0.5))
    with pytest.raises(BudgetError):
        approve_at(*place, study_of(), "west")
    assert not approvals(place[1])


STUDY = """
name = "tissue"
hospitals = ["north", "south", "west"]
colluders = 1
descriptor = "oct5"
manifold = "spd-log-euclidean"
classes = ["stained", "eye"]
budget = 1.0
size = 28
"""


def write_study(folder: Path, more: str = "") -> Path:
    """Write the terms; return their file."""
    path = folder / "study.toml"
    path.write_text(STUDY + more)
    return path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return an engine that runs studies in this process, and remembers them."""
    return run_here(monkeypatch)


@pytest.mark.parametrize("simulated", [0, 1, 2])
def test_a_simulated_release_is_called_so_first(
    released: tuple[Path, ...], tmp_path: Path, simulated: int
) -> None:
    """Pages of a release, and of several, say at their head which are simulated."""
    paths = [tmp_path / f"{place}.json" for place in range(2)]
    for place, path in enumerate(paths):
        document = json.loads(released[place].read_bytes())
        marks = ("a", "a", "a") if place < simulated else ("a", "b", "c")
        document["joint"]["hospitals"] = [*map(list, zip(NAMES, marks, strict=True))]
        document["settings"]["population"] = f"p{place}"
        for row in document["classes"]:  # else both are one release
            row["observed"]["sigma"] *= 1.0 + 0.001 * place
        path.write_text(json.dumps(document | {"signature": None}))
    first = read_document(paths[0])
    page = build_release_report(first, tmp_path / "release.html")
    assert main(["combine", *map(str, paths), "--out", str(tmp_path / "combined")]) == 0
    name = f"{first.settings.name}, {first.settings.run_key}"
    together = tmp_path / "combined" / "combine.html"
    may = (
        "Not fit to leave: in this rehearsal the owner of one"
        if simulated
        else "This page and the files"
    )
    assert f"<dt>Leaving the house</dt><dd>{may}" in page.read_text(encoding="utf-8")
    for path, which in ((page, ""), (together, f" ({name})" * (simulated == 1))):
        head = path.read_text(encoding="utf-8").partition("<main")[0]
        said = "Protected: one image, not a person."
        if simulated:
            said += f" Simulated on one machine{which}: the owner of one ledger saw the images of "
            said += "all hospitals, and all noise."
        assert f'<p class="lead protected">{said}</p>' in head


def simulated(folder: Path, study: Path, *more: str) -> tuple[str, ...]:
    """Return the words of a simulation."""
    configs = (str(folder / name / f"{name}.toml") for name in NAMES)
    return ("join", "run", str(study), "--simulate", *configs, "--out", str(folder / "out"), *more)


def test_a_simulation_is_paid_once_and_read_by_all(
    place: tuple[Path, Ledger], engine: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked for again it is the same; comparing, combining, matching and history take it."""
    words = simulated(place[0], write_study(place[0]))
    assert main([*words, "--json"]) == 0
    paths = json.loads(capsys.readouterr().out)
    assert list(paths) == list(NAMES)
    found = {name: [*(place[0] / "out" / name / "release").glob("*.json")] for name in NAMES}
    assert {name: [Path(path)] for name, path in paths.items()} == found
    before = {name: Path(path).read_bytes() for name, path in paths.items()}
    assert main([*words]) == 0
    assert "not fit to leave" in capsys.readouterr().out
    assert engine.studies[0] == engine.studies[1]
    assert {name: Path(path).read_bytes() for name, path in paths.items()} == before
    assert spent(place[1]) == ONCE

    first, copy = paths["north"], paths["south"]
    other = write_study(place[0], 'id = "another"\n')
    assert main([*simulated(place[0], other), "--json"]) == 0
    second = json.loads(capsys.readouterr().out)["south"]
    assert main(["compare", first, copy]) == 2  # one release, at two hospitals
    out, card = str(place[0] / "page"), str(place[0] / "north" / "north-card.toml")
    images = ["--dataset", card, "--data-root", str(place[0] / "north")]
    assert main(["compare", first, second, "--out", out]) == 0
    assert main(["combine", first, second, "--out", out]) == 0
    assert main(["harmonise", first, second, "--out", str(place[0] / "maps.json")]) == 2
    assert "all maps would be noise" in capsys.readouterr().err  # of one population
    with suppress(SystemExit):  # with 3, where these images differ from those of all
        assert main(["match", first, *images, "--out", out]) == 0
    assert (place[0] / "page" / "match.html").exists()
    assert main(["history", "--population", "north", "--out", out]) == 0
    capsys.readouterr()
    assert main(["join", "status", "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == ["released"] * 6


def test_a_simulation_that_cannot_begin_costs_nothing(
    place: tuple[Path, Ledger], engine: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last hospital has no budget; or nobody gets through to the first step."""
    words, before = simulated(place[0], write_study(place[0])), place[1].show()
    place[1].set_budget("west", GDP(0.5))
    assert main([*words]) == 2
    assert spent(place[1]) == {name: [] for name in NAMES}
    place[1].set_budget("west", GDP(2.0))
    engine.line = lambda hub, name: Dying(hub, name, 2, answered=False)
    main([*words])
    assert place[1].show() == before
    assert main([*words[:6], *words[7:]]) == 2  # a config is missing
    assert main(["join", "run", str(place[0] / "study.toml")]) == 2
    assert main(["join", "run", str(place[0] / "north" / "north.toml"), *words[3:]]) == 2
    assert place[1].show() == before
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) == 4 + 1


def test_a_hospital_approves_runs_and_withdraws(
    tmp_path: Path,
    engine: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a ledger of its own, whose key the terms name; another ledger's is refused."""
    write_hospitals(tmp_path)
    books = {name: init_ledger(tmp_path / f"{name}.sqlite") for name in NAMES}
    prints = {name: own_fingerprint(book) for name, book in books.items()}
    table = "".join(f'{name} = "{each}"\n' for name, each in prints.items())
    study = write_study(tmp_path, f"[fingerprints]\n{table}")
    config, out = str(tmp_path / "north" / "north.toml"), str(tmp_path / "out")
    words = ["join", "approve", str(study), "--config", config, "--out", out]
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "north.sqlite"))
    assert main(words) == 2  # no account
    books["north"].set_budget("north", GDP(2.0))
    assert main([*words, "--ledger", str(tmp_path / "ledger.sqlite")]) == 2  # another key
    errors = capsys.readouterr().err.strip().split("\n")
    assert len(errors) == 2
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "north has 440 images; charged μ = 1" in said
    assert "1,320 in all" in said
    assert all(each in said for each in prints.values())
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["charged"], told["n"], told["hospital"]) == (None, 440, "north")
    assert main(["join", "status"]) == 0
    assert "waits for its job" in capsys.readouterr().out
    assert main(["join", "run", str(study), "--kit", str(tmp_path)]) == 0
    assert engine.jobs == [(read_study(study).digest, "tissue", NAMES, tmp_path)]
    capsys.readouterr()
    assert main(["join", "withdraw", str(study)]) == 0
    assert spent(books["north"]) == {"north": []}
    assert main(["join", "withdraw", str(study)]) == 2
    assert "north has not approved the study" in capsys.readouterr().err
