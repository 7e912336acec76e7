"""Evidence that outsiders can check: signatures, verdicts, and the passport of a release."""
# ruff: noqa: F811  (fixtures that are imported)

import ast
import copy
import html
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covdp import DESCRIPTORS, GDP, ZCDP
from covdp.addons.partners.export import facts_of
from covdp.addons.partners.passport import folder as folder_module
from covdp.addons.partners.passport import verify as module
from covdp.addons.partners.passport.checking import verified
from covdp.addons.partners.passport.verify import UnverifiedError
from covdp.addons.partners.several import open_document
from covdp.cli import main
from covdp.inference import region
from covdp.ledger import api, init_ledger, open_ledger
from covdp.ledger.keys import fingerprint, public_text, signed
from covdp.privacy import best_test, epsilon_of, main_parameter, repeat
from tests.addons.partners.issued import (
    at,
    both,
    changed_at_random,
    code_of,
    committed,
    draw_in_python,
    dumped,
    holders,
    issue,
    other_digit,
    places,
    put,
    script,
    twin_class,
    twin_label,
    unsigned,
)
from tests.report.browsing import browser  # noqa: F401  (a fixture)

FORGERIES = 60
NOBODY = "consistent; signer unknown, as nobody signed"
SIMULATED = "; not fit to leave: simulated"
NO_VALUES = ["NaN", "-Infinity", '"1"', "1e999", "true", "null", "[]", "{}", "-1e13"]
TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "Zs"]), max_size=9)
AWKWARD = "a b'$(x)&é.json"
"""Name of a file that shells and addresses have to quote."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a ledger and its documents."""
    return tmp_path_factory.mktemp("issued")


@pytest.fixture(scope="module")
def documents(place: Path) -> dict[str, Path]:
    """Release in every way there is."""
    return issue(place)


@pytest.fixture(scope="module")
def drawn(place: Path) -> dict[str, Path]:
    """Means that Python drew, by no ledger, with noise of floats."""
    return draw_in_python(place)


@pytest.fixture(scope="module")
def passport(place: Path, documents: dict[str, Path]) -> Path:
    """Write the passport of a release and return its folder."""
    arguments = ["passport", str(documents["secret"]), "--key", str(place / "key.pem")]
    assert main([*arguments, "--out", str(place / "passport")]) == 0
    return place / "passport"


@pytest.fixture(scope="module")
def run(passport: Path) -> Any:
    """Return what the script of the passport does."""
    return script(passport / "verify.py")


# signatures


def test_every_committed_document_bears_the_signature_of_its_ledger(
    place: Path, documents: dict[str, Path]
) -> None:
    """Releases and nights; an outsider rebuilds what is signed in three lines."""
    owner = open_ledger(place / "ledger.sqlite").signing_key().public_key()
    for path in documents.values():
        document = json.loads(path.read_bytes())
        value = bytes.fromhex(document["signature"].pop("value"))
        text = b"covdp document " + json.dumps(document, sort_keys=True).encode()
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(document["signature"]["public_key"]))
        key.verify(value, text)
        assert key == owner
        assert "date" not in document["signature"]


def test_an_older_document_is_signed_once_with_the_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same bytes whenever it is asked; the history says so; other bytes are refused."""
    ledger = init_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("tiles", GDP(9.0))
    with monkeypatch.context() as earlier:
        earlier.setattr(api, "signed", lambda key, content, date=None: content)
        old = committed(
            tmp_path, ledger, "old", 'population = "tiles"\ndataset = "tiles"\nbudget = 1\n'
        )
    new = committed(
        tmp_path, ledger, "new", 'population = "tiles"\ndataset = "tiles"\nbudget = 2\n'
    )
    address = ["--ledger", str(tmp_path / "ledger.sqlite")]
    (tmp_path / "key.pem").write_text(public_text(ledger.signing_key()))
    assert verified(old, None)[0] == NOBODY
    texts = []
    for name in ("once", "twice"):
        out = tmp_path / f"{name}.json"
        assert main(["ledger", "sign", str(old), "--out", str(out), *address]) == 0
        texts.append(out.read_bytes())
    document = json.loads(texts[0])
    assert texts[0] == texts[1]
    assert document["signature"].pop("value")
    assert document.pop("signature")["date"] > "2020"
    assert document == json.loads(old.read_bytes())
    assert verified(tmp_path / "once.json", tmp_path / "key.pem")[0].startswith(
        "consistent; signed"
    )
    lines = [line.text for line in ledger.history("tiles") if line.kind == "note"]
    assert lines == ["signed the document of run 'monday', which was committed without a signature"]
    forged = tmp_path / "forged.json"
    forged.write_bytes(old.read_bytes().replace(b'"tiles"', b'"other"', 1))
    capsys.readouterr()
    for path in (forged, new, tmp_path / "once.json", tmp_path):
        assert (
            main(["ledger", "sign", str(path), "--out", str(tmp_path / "no.json"), *address]) == 2
        )
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "no.json").exists()


def test_readers_take_signed_and_unsigned_documents_alike(
    place: Path, documents: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Compared, combined, and told apart by nothing but the signature."""
    names = ("secret", "group")
    for name in names:
        (tmp_path / f"{name}.json").write_bytes(dumped(unsigned(documents[name])))
    for command in ("compare", "combine"):
        printed = list[str]()
        for paths in ([documents[name] for name in names], [tmp_path / f"{n}.json" for n in names]):
            assert main([command, *map(str, paths), "--json"]) == 0
            printed.append(capsys.readouterr().out)
        assert "p_value" in printed[0]
        assert printed[0] == printed[1]


# verdicts


def test_all_that_ledgers_commit_is_consistent(
    place: Path, documents: dict[str, Path], drawn: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """Signed, unsigned as before, and with the key; of zCDP, and what Python drew, too."""
    key = place / "key.pem"
    mark = key.read_text().split()[1]
    for name, path in documents.items():
        content, more = path.read_bytes(), SIMULATED * (name == "joint")
        assert both(run, content, tmp_path) == (f"consistent; signer unknown{more}",) * 2
        signer = f"consistent; signed by the key {mark}{more}"
        assert both(run, content, tmp_path, key) == (signer,) * 2
        assert both(run, dumped(unsigned(path)), tmp_path, key) == ("", "")
    for name in set(documents) - {"joint"}:
        assert both(run, dumped(unsigned(documents[name])), tmp_path) == (NOBODY,) * 2
    unfit = f"{NOBODY}; not fit to leave: noise of floats; paid by no account"
    for path in drawn.values():
        assert both(run, path.read_bytes(), tmp_path) == (unfit,) * 2


@pytest.mark.parametrize(
    "budget", [GDP(1e-4), GDP(0.1), GDP(3.7), ZCDP(1e-4), ZCDP(1 / 3), ZCDP(12)]
)
def test_no_true_document_is_refused(budget: GDP | ZCDP, run: Any, tmp_path: Path) -> None:
    """At budgets where ε is next to nothing, of no short decimal, or where nothing is protected."""
    ledger = init_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("tiles", repeat(budget, 3))
    for labels in ("secret", "public"):
        text = f'definition = "{budget.name}"\nlabels = "{labels}"\n'
        text += f"budget = {main_parameter(budget)!r}\n"
        path = committed(
            tmp_path, ledger, labels, f'population = "tiles"\ndataset = "tiles"\n{text}'
        )
        assert both(run, path.read_bytes(), tmp_path) == ("consistent; signer unknown",) * 2


def test_sixty_forgeries_are_refused(
    place: Path, documents: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """One digit of one number, a class, a key, another signature: with the key and without."""
    rng = np.random.default_rng(61)
    forged = []
    for name in ("secret", "invariant", "public-night-3", "joint"):
        path = documents[name]
        values = json.loads(path.read_bytes())
        numbers = [w for w in places(values) if type(at(values, w)) in (int, float)]
        spots = [numbers[spot] for spot in rng.choice(len(numbers), FORGERIES // 4, replace=False)]
        spots += [where for where in numbers if where[0] == "joint"]
        forged += [put(values, where, other_digit(at(values, where), rng)) for where in spots]
        signature, name = ("signature", "value"), ("classes", 0, "name")
        other = json.loads(documents["single"].read_bytes())["signature"]["value"]
        forged += [put(values, name, "another"), put(values, signature, other)]
        forged.append(put(values, ("signature", "public_key"), "ab" * 32))
        forged.append(put(values, ("signature", "date"), "2026-01-01"))
        forged.append({**values, "unknown": 1})
        forged.append({k: v for k, v in values.items() if k != "statement"})
    assert len(forged) > FORGERIES
    for values in forged:
        for key in (None, place / "key.pem"):
            assert both(run, dumped(values), tmp_path, key) == ("", "")


def test_a_number_that_follows_from_others_cannot_be_another(
    documents: dict[str, Path], drawn: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """Where nothing is signed, and where a forger has signed anew."""
    stranger = init_ledger(tmp_path / "other.sqlite").signing_key()
    values = unsigned(documents["secret"])
    mean, cost, account = ("classes", 0), ("classes", 1, "costs", 2), ("account",)
    follows = [
        *((*mean, name) for name in ("mu", "rho", "label", "name", "manifold")),
        *((*mean, "point", 2, 2), (*mean, "coordinates", 3), (*mean, "n")),
        *((*mean, "observed", name) for name in ("n", "sigma")),
        *((*cost, name) for name in ("rho", "sigma", "sensitivity")),
        *(
            (*account, name)
            for name in ("spent", "left", "total", "delta", "charged", "definition")
        ),
        *((*account, f"epsilon_{name}") for name in ("spent", "left", "total")),
        *(("settings", name) for name in ("budget", "definition", "manifold", "total", "noise")),
    ]
    texts = {"Guarantee": "0.4-GDP", "Implies": "(2.1, 10⁻⁵)-DP: …"}
    texts |= {"In plain words": "right in at most 62.3 % of cases, a guess in 50 %"}
    texts |= {"One more or one fewer": "at 0.353554-GDP: right in at most 58.7 % of cases"}
    forged = [(title, [title, text]) for title, text in texts.items()]
    titles = [title for title, _ in values["statement"]]
    changed = [put(values, ("statement", titles.index(title)), row) for title, row in forged]
    for where in follows:
        old = at(values, where)
        other = f"{old}x" if isinstance(old, str) else old + 1 if type(old) is int else 1.01 * old
        changed.append(put(values, where, other))
    night, first = unsigned(documents["secret-night-3"]), ("classes", 0)
    window, manifold = (*first, "windows", 0, "point", 1, 1), (*first, "certainty", "manifold")
    changed += [
        put(night, where, at(night, where) + 1)
        for where in (("coefficient_norm",), window, ("horizon",))
    ]
    changed += [put(night, manifold, "spd-log-cholesky"), put(night, (*first, "certainty"), None)]
    changed += [put(night, (*first, name), None) for name in ("point", "coordinates", "rho")]
    changed.append(put(unsigned(documents["public-night-3"]), (*first, "rho"), 0.1))  # of no step
    single = unsigned(documents["single"])
    changed += [put(one, (*first, "costs"), []) for one in (values, single)]
    rest = at(values, (*first, "costs"))[1:]  # a step less, and the sum of the others
    for one, steps in ((single, []), (values, rest)):
        told = sum(step["rho"] for step in steps) or None
        changed.append(put(put(one, (*first, "costs"), steps), (*first, "rho"), told))
    for path in drawn.values():  # noise of floats: none is certified, and no other is known
        floats = json.loads(path.read_bytes())
        changed += [put(floats, ("settings", "noise"), "1float"), put(floats, (*first, "rho"), 0.1)]
        changed.append(put(floats, (*first, "costs", 0, "rho"), 0.1))
    for other in changed:
        assert both(run, dumped(other), tmp_path) == ("", "")
        assert both(run, signed(stranger, dumped(other)), tmp_path) == ("", "")


@pytest.mark.parametrize(
    "names", [("secret", "persons"), ("public", "group"), ("public-night-3", "secret-night-3")]
)
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_what_a_forger_signs_anew_is_held_against_the_rest(
    names: tuple[str, str], documents: dict[str, Path], run: Any, place: Path, data: st.DataObject
) -> None:
    """Releases left, charges, descriptor, account and unknown fields: refused, signed or not."""
    values = unsigned(documents[data.draw(st.sampled_from(names))])
    kind = data.draw(st.sampled_from(["left", "releases", "descriptor", "account", "unknown"]))
    account, rng = values["account"], st.integers(0, 10**12)
    if kind == "left":  # of an exact quotient the one below may be rounding
        true = account["releases_left"]
        account["releases_left"] = data.draw(rng.filter(lambda x: not true - 1 <= x <= true))
    elif kind == "releases":
        one = account["releases"] == 1
        account["releases"] = data.draw(rng.filter(lambda x: x != 1) if one else st.integers(0, 1))
    elif kind == "descriptor":
        others = [name for name in DESCRIPTORS if name != "oct5"]
        values["settings"]["descriptor"] = data.draw(st.sampled_from([*others, "oct"]) | TEXTS)
    elif kind == "account":
        values["account"], said = None, values["statement"]
        told = ["Not paid from a ledger", data.draw(TEXTS)]
        less = [row for row in said if row[0] != "Charged to the account"]
        values["statement"] = data.draw(st.sampled_from([said, [*said, told], [*less, told]]))
    else:
        parts = [values, values["account"], values["settings"], *values["classes"]]
        parts += [cost for entry in values["classes"] for cost in entry["costs"]]
        part = parts[data.draw(st.integers(0, len(parts) - 1))]
        name = data.draw(TEXTS.filter(lambda x: x not in part))
        part[name] = data.draw(st.none() | rng | TEXTS)
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert both(run, signed(stranger, dumped(values)), place) == ("", "")
    if kind != "account":  # of a release that Python drew there is none
        assert both(run, dumped(values), place) == ("", "")


def test_a_document_has_one_set_of_bytes(
    documents: dict[str, Path], drawn: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """Of the same values with a mark, in other letters, order or blanks no other is signed."""
    for path in (*documents.values(), *drawn.values()):
        content = path.read_bytes()
        values, text = json.loads(content), content.decode()
        others = [b"\xef\xbb\xbf" + content, text.encode("utf-16"), text.encode("utf-32-le")]
        if signature := values.get("signature"):
            for name in ("value", "public_key"):
                old = signature[name].encode()
                others += [content.replace(old, new) for new in (old.upper(), b"g" * len(old))]
            others += [json.dumps(values, sort_keys=True, indent=1).encode(), content + b"\n"]
            others.append(dumped(dict(reversed(values.items()))))
        for other in others:
            assert both(run, other, tmp_path) == ("", "")


def test_sizes_of_public_classes_are_numbers(
    documents: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """Of a night with public labels no number is null, and of one with secret labels both are."""
    for name in ("public-night-3", "secret-night-3"):
        values = unsigned(documents[name])
        for fields in (("n_so_far",), ("n_tonight",), ("n_so_far", "n_tonight")):
            other = copy.deepcopy(values)
            for row, known in zip(other["classes"], other["settings"]["classes"], strict=True):
                row |= dict.fromkeys(fields, None if "public" in name else 3)
                known[2] = row["n_tonight"]
            assert both(run, dumped(other), tmp_path) == ("", "")


def test_hospitals_are_as_the_rest_says_and_no_name_stands_twice(
    documents: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """Hospitals, how many of them may show their noise, titles, classes and labels."""
    values, joint = (unsigned(documents[name]) for name in ("secret", "joint"))
    night = unsigned(documents["secret-night-3"])
    changed = [twice(one) for one in (values, night) for twice in (twin_class, twin_label)]
    changed.append(put(values, ("statement",), [["Guarantee", "9-GDP"], *values["statement"]]))
    north, south, _ = joint["joint"]["hospitals"]
    others = [("hospital", "east"), ("hospitals", [north] * 3), ("hospitals", [north, south])]
    others += [("hospitals", []), ("hospital", ""), ("colluders", 3), ("colluders", 2)]
    changed += [put(joint, ("joint", name), value) for name, value in others]
    changed.append(put(joint, ("joint",), {**joint["joint"], "colluders": 3, "noise": 1e12}))
    told = [title for title, _ in joint["statement"]].index("Hospitals that show their noise")
    text = joint["statement"][told][1].replace("at most 1 of", "at most 2 of")
    changed.append(put(joint, ("statement", told, 1), text))
    for other in changed:
        assert both(run, dumped(other), tmp_path) == ("", "")


def test_who_signed_is_known_by_the_key_alone(
    place: Path, documents: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """Whoever signs a document anew passes without a key and not with one; no key is no key."""
    stranger = init_ledger(tmp_path / "other.sqlite").signing_key()
    theirs = signed(stranger, dumped(unsigned(documents["secret"])))
    assert both(run, theirs, tmp_path) == ("consistent; signer unknown",) * 2
    assert both(run, theirs, tmp_path, place / "key.pem") == ("", "")
    path, empty, text = documents["secret"], tmp_path / "empty", tmp_path / "text"
    content, pem = path.read_bytes(), (place / "key.pem").read_text()
    empty.touch()
    text.write_text(
        "fingerprint aaaa\n-----BEGIN PUBLIC KEY-----\nnone\n-----END PUBLIC KEY-----\n"
    )
    other = tmp_path / "other.pem"
    other.write_text(public_text(stranger))
    several = tmp_path / "several.pem"
    for more in (pem, public_text(stranger), "text"):
        for texts in ((pem, more), (more, pem)):
            several.write_text("".join(texts))
            assert both(run, content, tmp_path, several) == ("", "")
    for key in (empty, text, other):
        assert both(run, content, tmp_path, key) == ("", "")
    for key in (empty, text, documents["secret"]):  # the fault is named, and is not the document's
        fault = "the file of the key is not the key that signed"
        with pytest.raises(Exception, match=fault):
            run(content, key.read_bytes())
        with pytest.raises(UnverifiedError, match=fault):
            verified(path, key)
    line, _, pem = public_text(stranger).partition("\n")
    theirs = signed(stranger, dumped(unsigned(documents["secret"])))
    for mark, holds in ((line, True), ("", True), ((place / "key.pem").read_text()[:51], False)):
        other.write_text(f"{mark}\n{pem}")  # who compares the line must have compared the key
        assert all(both(run, theirs, tmp_path, other)) == holds
    joint = signed(stranger, dumped(unsigned(documents["joint"])))
    assert both(run, joint, tmp_path) == ("", "")  # its hospitals have other keys


def test_both_verdicts_are_one_on_whatever_stands_in_a_document(
    documents: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """No number, another type, nothing there, a field twice: on every place of form in turn.

    Of a joint release that is its own part; letters that are none stand in texts of any length.
    """
    for name in ("secret", "secret-night-3", "joint"):
        values = unsigned(documents[name])
        values["settings"]["window"] = [1.0, 2.0]
        values["classes"], values["settings"]["classes"] = (
            part["classes"][:1] for part in (values, values["settings"])
        )
        seen, refused = set[str](), 0
        own = {"joint", "statement"} if name == "joint" else values.keys()
        for where in holders(values):
            if where[0] not in own:
                continue
            shape, old = re.sub(r"\b\d+\b", "*", ".".join(map(str, where))), at(values, where)
            others = [None, [*old[:-1]], [*old, *old[-1:]]] if isinstance(old, list) else [None, []]
            for other in [] if shape in seen else others:
                ours, theirs = both(run, dumped(put(values, where, other)), tmp_path)
                assert ours == theirs, (where, other)
            seen.add(shape)
        seen.clear()
        for where in places(values):
            shape = re.sub(r"\b\d+\b", "*", ".".join(map(str, where)))
            if shape in seen or where[0] not in own:
                continue
            marked = json.dumps(put(values, where, "\0mark"))
            text = ['"\\ud800"'] if isinstance(at(values, where), str) else []
            for other in NO_VALUES[len(seen) % 3 :: 3] + text:  # over all places each of them
                content = marked.replace(json.dumps("\0mark"), other).encode()
                ours, theirs = both(run, content, tmp_path)
                assert ours == theirs, (where, other)
                refused += not ours
            seen.add(shape)
            if isinstance(where[-1], str):
                less = copy.deepcopy(values)
                del at(less, where[:-1])[where[-1]]
                ours, theirs = both(run, dumped(less), tmp_path)
                assert ours == theirs, where
        assert refused > 2 * len(seen)


def test_both_verdicts_are_one_on_changes_at_random(
    documents: dict[str, Path], drawn: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """One field of any document is another, is gone or stands twice: 240 changes, signed or not.

    Of a joint release it is a field of its own part.
    """
    rng, refused, stranger = np.random.default_rng(240), 0, Ed25519PrivateKey.generate()
    names = ("secret", "public", "persons", "group", "joint", "public-night-2", "secret-night-3")
    for path in (*(documents[name] for name in names), *drawn.values()):
        values = json.loads(path.read_bytes())
        values.pop("signature", None)
        shapes: dict[str, list[tuple[Any, ...]]] = {}
        for where in (*holders(values), *places(values)):
            if where[0] == "joint" or "joint" not in values:
                shape = re.sub(r"\b\d+\b", "*", ".".join(map(str, where)))
                shapes.setdefault(shape, []).append(where)
        for shape in rng.choice(sorted(shapes), 27):
            where = shapes[shape][int(rng.integers(len(shapes[shape])))]
            other = put(values, where, changed_at_random(at(values, where), rng))
            for content in (dumped(other), signed(stranger, dumped(other))):
                ours, theirs = both(run, content, tmp_path)
                assert ours == theirs, (path, where, at(other, where))
                refused += not ours
    assert refused > 240


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"1", b'"text"', b"null", b"{}", b'{"night": 1}', b"\xff\xfe\x00"),
        *(b"[" * 100_000, b'{"settings": {}, "settings": {}}', b'{"a": 1e999}', b'{"a": NaN}'),
    ],
)
def test_what_is_no_document_is_refused_in_a_line(
    content: bytes,
    run: Any,
    passport: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 4 of both, and one line."""
    path = tmp_path / "other.json"
    path.write_bytes(content)
    assert both(run, content, tmp_path) == ("", "")
    assert code_of("verify", path) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_commands_and_script_end_alike(
    place: Path,
    documents: dict[str, Path],
    passport: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As processes: exit code 0 with the verdict first, 4 with one line, 2 where none can be read.

    Whatever letters the terminal has, and where no file is named.
    """
    whole = documents["secret"].read_bytes()
    cut, twice, none = tmp_path / "cut.json", tmp_path / "twice.json", (tmp_path, tmp_path / "no")
    changed = tmp_path / "changed.json"
    changed.write_bytes(whole.replace(b'"title": "', b'"title": "A ', 1))
    greek, values = tmp_path / "greek.json", unsigned(documents["secret"])
    values["classes"][0]["name"] = values["settings"]["classes"][0][1] = "αβγ"
    greek.write_bytes(dumped(values))
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    cut.write_bytes(whole[:-100])
    twice.write_bytes(whole.replace(b'{"account"', b'{"title": "a", "account"', 1))
    cases = [
        ([documents["secret"]], 0),
        ([documents["secret"], place / "key.pem"], 0),
        ([documents["secret"], documents["single"]], 4),
        *(
            ([path], 2 if path in none else 4)
            for path in (cut, twice, changed, passport / "dcat.jsonld", *none)
        ),
        ([documents["secret"], tmp_path / "no"], 2),
        ([greek], 0),
    ]
    for files, code in cases:
        ours = code_of("verify", files[0], *(f"--key={file}" for file in files[1:]))
        said = capsys.readouterr()
        command = [sys.executable, passport / "verify.py", *files]
        done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=plain)
        told = [stream.decode() for stream in (done.stdout, done.stderr)]
        assert ours == done.returncode == code, files
        if code:
            assert said.out == told[0] == ""
            assert said.err.count("\n") == told[1].count("\n") == 1
            assert said.err.removeprefix("covdp: ") == told[1] or code == 2
            assert str(files[-1] if code == 2 else files[0]) in told[1]
        else:
            assert said.out.split("\n")[0] == told[0].split("\n")[0]
    done = subprocess.run([sys.executable, passport / "verify.py"], capture_output=True, text=True)
    usage = "usage: python verify.py RELEASE.json [KEY]\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", usage)
    for asked, code in (("--help", 0), ("-h", 0), ("a b c", 2)):
        command = [sys.executable, passport / "verify.py", *asked.split()]
        done = subprocess.run(command, capture_output=True, text=True)
        told = (done.stderr, done.stdout) if code else (done.stdout, done.stderr)
        assert (done.returncode, *told) == (code, usage, "")
    assert code_of("passport", cut, "--out", tmp_path / "none") == 4
    assert not (tmp_path / "none").exists()


def test_the_script_computes_what_covdp_computes(documents: dict[str, Path]) -> None:
    """ε, success of the best test and sizes of regions, to 1e-12."""
    for mu in (0.01, 0.1, 0.5, 1.0, 5.0, 40.0):
        for delta in (1e-5, 1e-9, 0.01):
            ours = [epsilon_of(GDP(mu), delta), epsilon_of(ZCDP(mu), delta)]
            theirs = [module._epsilon(2, mu, delta), module._epsilon(1, mu, delta)]
            assert theirs == pytest.approx(ours, rel=1e-12, abs=1e-300)
    for name in ("public", "public-night-3", "secret-night-3"):
        values = json.loads(documents[name].read_bytes())
        for row in values["classes"]:
            where = region(row)
            size = where.noise_radius if name == "public" else where.radius
            found = module._radius(row, len(row["coordinates"]), "night" in name)
            assert found == pytest.approx(size, rel=1e-12)
    assert best_test(GDP(0.5), True) == "62.4"


def test_the_script_is_a_page_that_needs_nothing_of_covdp(passport: Path) -> None:
    """At most 150 lines; NumPy, cryptography and what Python has."""
    text = (passport / "verify.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    assert names - set(sys.stdlib_module_names) == {"numpy", "cryptography"}


# records


@pytest.fixture(scope="module")
def every(place: Path, documents: dict[str, Path], drawn: dict[str, Path]) -> dict[str, Path]:
    """Documents of ledgers and of Python, of a night with a mean of one class, with a bad name."""
    half = unsigned(documents["public-night-2"])
    half["classes"][0] |= {"point": None, "coordinates": None, "certainty": None}
    (place / "half.json").write_bytes(dumped(half))
    (place / AWKWARD).write_bytes(documents["public"].read_bytes())
    many = unsigned(documents["group"])
    rows = [many["classes"][i % 3] | {"label": i, "name": f"class number {i}"} for i in range(9)]
    many["settings"]["classes"] = [[row["label"], row["name"], None] for row in rows]
    (place / "many.json").write_bytes(dumped({**many, "classes": rows}))
    others = {"half-night": place / "half.json", "awkward": place / AWKWARD}
    return {**documents, **drawn, **others, "many": place / "many.json"}


@pytest.fixture(scope="module")
def folders(place: Path, every: dict[str, Path]) -> dict[str, Path]:
    """Write the passport of each document and return their folders."""
    for name, path in every.items():
        assert main(["passport", str(path), "--out", str(place / "of" / name), "--quiet"]) == 0
    return {name: place / "of" / name for name in every}


def test_croissant_is_read_with_its_rows(folders: dict[str, Path], every: dict[str, Path]) -> None:
    """By mlcroissant, without an error; it lacks only what the release does not say."""
    mlcroissant = pytest.importorskip("mlcroissant")
    for name, folder in folders.items():
        read = mlcroissant.Dataset(str(folder / "croissant.json"))
        issues = read.metadata.ctx.issues
        assert not issues.errors
        lacking = {
            re.findall(r'"https?://\S+/(\w+)" is recommended', one)[0] for one in issues.warnings
        }
        assert lacking == {"citeAs", "datePublished", "license"}
        rows = [(row["classes/name"].decode(), row["classes/n"]) for row in read.records("classes")]
        values = json.loads(every[name].read_bytes())
        assert rows == [(row["name"], row["n"]) for row in values["classes"]]


def test_dcat_passes_but_for_what_is_left_empty(folders: dict[str, Path]) -> None:
    """By pySHACL, with the fields that HealthDCAT-AP wants of data that are not public."""
    pyshacl, rdflib = pytest.importorskip("pyshacl"), pytest.importorskip("rdflib")
    from covdp.addons.partners.passport.folder import EMPTY

    wanted = rdflib.Graph().parse(Path(__file__).with_name("healthdcat.ttl"))
    result = rdflib.URIRef("http://www.w3.org/ns/shacl#resultPath")
    for folder in folders.values():
        graph = rdflib.Graph().parse(folder / "dcat.jsonld", publicID="urn:passport")
        _, report, _ = pyshacl.validate(graph, shacl_graph=wanted)
        names = {
            graph.namespace_manager.normalizeUri(path) for path in report.objects(None, result)
        }
        names = {
            name.strip("<>").replace("http://data.europa.eu/r5r/", "dcatap:") for name in names
        }
        names = {name.replace("dcterms:", "dct:") for name in names}
        assert names
        assert names <= set(EMPTY["dcat.jsonld"])
        assert all(name in (folder / "dcat.jsonld").read_text() for name in EMPTY["dcat.jsonld"])


def test_the_registry_takes_the_entry_but_for_what_is_left_empty(folders: dict[str, Path]) -> None:
    """Fields, choices and required ones as the registry's schema has them."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(Path(__file__).with_name("registry.json").read_text())
    judge = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    for folder in folders.values():
        entry = json.loads((folder / "registry.json").read_text())
        faults = [".".join(map(str, error.path)) for error in judge.iter_errors(entry)]
        assert faults == ["deployment.basic.publication_date"]
        assert "publication_date" in entry["deployment"]["administrative"]["notes"]


def test_records_of_a_joint_release_are_of_all_its_hospitals(
    folders: dict[str, Path], documents: dict[str, Path], tmp_path: Path
) -> None:
    """Whose images they are, on what condition it holds, and that no curator sees all.

    Where all hospitals have one key, as here at first, somebody does.
    """
    condition = "if at most 1 of the 3 hospitals shows its noise to an attacker"
    apart = unsigned(documents["joint"])
    for place, hospital in enumerate(apart["joint"]["hospitals"]):
        hospital[1] = fingerprint(bytes([place] * 32))
    (tmp_path / "apart.json").write_bytes(dumped(apart))
    assert main(["passport", str(tmp_path / "apart.json"), "--out", str(tmp_path / "all")]) == 0
    texts = {path.name: path.read_text() for path in (tmp_path / "all").iterdir()}
    whose = "north, south and west"
    catalogue, entry = json.loads(texts["dcat.jsonld"]), json.loads(texts["registry.json"])
    assert catalogue["dct:title"]["@value"] == f"Images of {whose}"
    assert catalogue["healthdcatap:populationCoverage"]["@value"] == whose
    assert catalogue["healthdcatap:numberOfRecords"]["@value"] == "1320"
    values = json.loads(documents["joint"].read_bytes())
    assert catalogue["dct:identifier"] == values["joint"]["study"]
    deployment = entry["deployment"]
    assert deployment["deployment_model"]["model_name"] == "Federated"
    assert f"images of {whose}," in deployment["basic"]["description"]
    assert "add up" in deployment["accounting"]["composition"]
    for name in ("croissant.json", "dcat.jsonld", "registry.json", "checker.html"):
        assert whose in texts[name]
        assert condition in texts[name]
        assert condition not in (folders["secret"] / name).read_text()
    assert "Simulated" not in texts["checker.html"]
    assert "Simulated joint release" in (folders["joint"] / "checker.html").read_text()
    for name in ("secret", "joint"):
        model = json.loads((folders[name] / "registry.json").read_text())["deployment"]
        assert model["deployment_model"]["model_name"] == "Central"


def test_a_text_that_is_missing_is_one_line_and_no_folder(
    documents: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each title in turn is gone or says nothing: what does not hold is 4, what lacks is 2."""
    codes = set()
    for name in ("joint", "public-night-1"):
        values = unsigned(documents[name])
        for place, (title, _) in enumerate(values["statement"]):
            rows: Any = ([], [[title, " "]], [[title, ""]])
            for row in rows[place % 3 :: 2]:
                before, after = values["statement"][:place], values["statement"][place + 1 :]
                path, out = tmp_path / "less.json", tmp_path / f"{name}-{place}-{rows.index(row)}"
                path.write_bytes(dumped({**values, "statement": [*before, *row, *after]}))
                code = code_of("passport", path, "--out", out)
                told = capsys.readouterr().err
                assert (code, code_of("verify", path)) in {(0, 0), (2, 0), (4, 4)}, title
                assert out.exists() == (code == 0)
                assert told.count("\n") == (code != 0)
                paid = title in ("Charged to the account", "Not paid from a ledger")
                reason = "account and statement differ" if paid and not row else repr(title)
                assert reason in told or not code
                codes.add(code)
                capsys.readouterr()
    assert codes == {0, 2, 4}


@pytest.mark.parametrize(
    "name",
    ["registry.json", "Registry.JSON", "VERIFY.py", "checker.HTML", "a\nb.json", b"\xff.json"],
)
def test_a_name_that_cannot_stand_in_a_passport_is_refused(
    name: str | bytes,
    documents: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """That of a file of the passport, in whatever case, and one that is no text: exit code 2."""
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(documents["single"].read_bytes())
    assert code_of("passport", path, "--out", tmp_path / "out") == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "give it another name" in told.err
    assert not (tmp_path / "out").exists()


def test_no_file_of_another_takes_part_in_a_passport(
    documents: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written again it is the same; a file with other content is named and stays, as all do."""
    out, command = tmp_path / "out", ["passport", documents["single"], "--quiet", "--out"]
    assert code_of(*command, out) == 0
    kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()}
    assert code_of(*command, out) == 0
    for path, (content, _) in kept.items():
        path.unlink()
        assert code_of(*command, out) == 0  # it alone is written
        assert path.read_bytes() == content
        capsys.readouterr()
        for other in (b"", content + b" ", b"x" * len(content)):
            path.write_bytes(other)
            assert code_of(*command, out) == 2
            assert f"{path} is there already with other content" in capsys.readouterr().err
            assert path.read_bytes() == other
        path.unlink()
        path.symlink_to(tmp_path / "nowhere")
        assert code_of(*command, out) == 2
        assert path.is_symlink()
        assert not (tmp_path / "nowhere").exists()
        path.unlink()
        path.write_bytes(content)
    assert {path: path.read_bytes() for path in out.iterdir()} == {
        path: content for path, (content, _) in kept.items()
    }


def test_what_is_written_is_what_was_verified(
    documents: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where somebody puts another document there meanwhile."""
    path, content = tmp_path / "single.json", documents["single"].read_bytes()
    path.write_bytes(content)

    def then_replaced(*arguments: Any) -> Any:
        found = verified(*arguments)
        path.write_bytes(documents["public"].read_bytes())
        return found

    monkeypatch.setattr(folder_module, "verified", then_replaced)
    assert code_of("passport", path, "--out", tmp_path / "out", "--quiet") == 0
    assert (tmp_path / "out" / "single.json").read_bytes() == content


def test_an_export_names_the_hospitals(documents: dict[str, Path]) -> None:
    """Of a joint release all, and of another none."""
    facts = {name: facts_of(open_document(documents[name], None)) for name in ("joint", "secret")}
    names = [name for name, _ in json.loads(documents["joint"].read_bytes())["joint"]["hospitals"]]
    assert facts["joint"]["Hospitals"] == names
    assert "Hospitals" not in facts["secret"]


def test_the_sheet_prints_a_command_that_works(folders: dict[str, Path]) -> None:
    """In the folder of the passport, whatever the document is called; KEY is left to fill in."""
    text = (folders["awkward"] / "checker.html").read_text(encoding="utf-8")
    (command,) = re.findall(r'<code class="line">(python verify.py .*?)</code>', text)
    words = shlex.split(html.unescape(command))
    assert words == ["python", "verify.py", AWKWARD, "KEY"]
    done = subprocess.run(
        [sys.executable, *words[1:-1]], cwd=folders["awkward"], capture_output=True, check=False
    )
    assert done.returncode == 0


def test_the_sheet_is_one_page_that_answers(
    browser: Any, folders: dict[str, Path], every: dict[str, Path], tmp_path: Path
) -> None:
    """Who, what, how many, how protected, how checked: on one side of A4 in print.

    What holds of some documents is said of these alone.
    """
    pypdf = pytest.importorskip("pypdf")
    window = browser.new_page(viewport={"width": 688, "height": 980})
    for name, folder in folders.items():
        window.goto((folder / "checker.html").as_uri())
        window.emulate_media(media="print")
        window.pdf(path=tmp_path / "sheet.pdf", prefer_css_page_size=True)
        pages = pypdf.PdfReader(tmp_path / "sheet.pdf").pages
        assert len(pages) == 1, name
        text = " ".join(window.inner_text("body").split())
        values = json.loads(every[name].read_bytes())
        said, rows, settings = dict(values["statement"]), values["classes"], values["settings"]
        assert settings["population"] in text
        assert said["Guarantee"] in text
        assert text.count("Charged: ") == (values["account"] is not None)
        assert ("Not to be concluded: anything about one" in text) == any(
            row["point"] is not None for row in rows
        )
        assert f"{best_test_of(said)} of 100" in text
        assert all(row["name"] in text for row in rows)
        total = settings.get("total") or sum(row.get("n_so_far", row["n"]) for row in rows)
        assert f"{total:,} {settings['unit']}s" in text
        assert not re.search(r"\b1 (image|person)s", text)
        bounded = settings["unit"] == "image" and (settings["images_per_person"] or 1) > 1
        assert (f"not a person: {said.get('Several images of one person')}" in text) == bounded
        assert ("not fit to leave" in text) == (settings["noise"] == "float" or name == "joint")
        assert ("No account paid" in text) == (values["account"] is None)
        assert ("Number of persons: not in the file" in text) == (settings["unit"] == "image")
        means = sum(row["point"] is not None for row in rows)
        answer = "No average leaves" if not means else "one average"
        answer = f"an average for {means} of" if 0 < means < len(rows) else answer
        assert answer in text
        seen = [row.get("observed") or (row.get("certainty") or {}).get("parts") for row in rows]
        assert all((row.get("no_point") or "") in text for row in rows)
        assert ("scatter around" in text) == any(seen)
        assert ("averages of at most the last" in text) == any(row.get("windows") for row in rows)
        assert ("hospitals shows its noise" in text) == (name == "joint")
        assert ("these charges" in text) == ((values["account"] or {}).get("releases", 0) > 1)
    window.close()


def test_the_sheet_begins_with_the_verdict_and_names_what_it_is_of(
    browser: Any, folders: dict[str, Path], every: dict[str, Path], run: Any, tmp_path: Path
) -> None:
    """The box says what `covdp verify` says; keys, neighbours, limits and gaps stand below."""
    window = browser.new_page()
    for name, folder in folders.items():
        window.goto((folder / "checker.html").as_uri())
        text, box = (" ".join(window.inner_text(x).split()) for x in ("body", ".answer >> nth=0"))
        values = json.loads(every[name].read_bytes())
        said, known, account = dict(values["statement"]), values["settings"], values["account"]
        verdict = both(run, every[name].read_bytes(), tmp_path)[0]
        assert box.startswith(f"C{verdict[1:]}.")
        assert verdict.endswith("paid by no account") == (account is None)
        nobody = best_test_of(said) >= 99.0
        assert ("protects nobody" in box) == nobody
        unfit = "; not fit" in verdict or account is None or nobody
        assert window.locator(".answer.warning").count() == unfit
        for _, key in values.get("joint", {}).get("hospitals", []):
            assert key in text
        assert said["Not covered"] in text
        assert said["Neighbouring data sets"][1:] in text
        assert said.get("One more or one fewer", "not protected, as the exact number") in text
        limit = f"{known['smallest_class']} {known['unit']}"
        limited = known["labels"] == "public" and account is not None
        assert (
            bool(re.search(f"A class (is released only with|waits .* has) {limit}", text))
            == limited
        )
        assert ("run Python" in text) is False
        assert ("the file holds no" in text) == ("date" not in (values.get("signature") or {}))
    window.close()


def best_test_of(said: dict[str, str]) -> float:
    """Return the success of the best attacker that a statement tells, in per cent."""
    success = re.search(r"([\d.]+) % of cases", said["In plain words"])
    assert success
    return float(success[1])
