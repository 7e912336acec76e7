"""The folder of a passport: the document, the script that checks it, and records of it for others.

The records are templates of ``reports``, filled with what the document says and what follows from
it. Fields that it does not say are left empty, and each record names its own.
"""

import hashlib
import json
import shlex
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from covdp.addons.partners.foreign import computed
from covdp.addons.partners.join.schema import JointDocument
from covdp.addons.partners.passport.checking import verified
from covdp.addons.partners.passport.rules import document_rules
from covdp.errors import ConfigError
from covdp.figures import listing
from covdp.files import write_new
from covdp.inference import usual_difference
from covdp.ledger.keys import fingerprint
from covdp.privacy import ZCDP, best_test, budget_from, convert
from covdp.privacy.statement import equivalent, protects
from covdp.report.templates import draw, templates
from covdp.schema import Document

RESOURCES = files(__package__)
EMPTY = tomllib.loads((RESOURCES / "empty.toml").read_text(encoding="utf-8"))
"""Fields of each record that no document says; the publisher of a record fills them in."""


class _Statement(dict[str, str]):
    """Texts of a statement by their titles; one that is missing is an error in one line."""

    def __missing__(self, title: str) -> str:
        raise ConfigError(
            f"the statement says nothing under {title!r}, which a passport repeats; take the "
            "document as its ledger committed it"
        )


def write_passport(path: Path, key: Path | None, out: Path) -> dict[str, Path]:
    """Write the passport of a document, and return its files by their names.

    Where something does not hold of the document, `verified` says so and nothing is written.

    Parameters
    ----------
    path : Path
        File of the document.
    key : Path or None
        File with the public key of its ledger, compared when given.
    out : Path
        Folder of the passport.

    Returns
    -------
    dict of str to Path
        The document, three records, the sheet and the script.

    Raises
    ------
    ConfigError
        When the document has the name of a file of the passport or one that is no text, or its
        statement lacks what a passport must say.
    OutputError
        When a file cannot be read or written, or is there with other content.
    """
    verdict, radii, _, content, document = verified(path, key)
    name, script = path.name, (RESOURCES / "verify.py").read_text(encoding="utf-8")
    if name.casefold() in {*EMPTY, "checker.html", "verify.py"} or not name.isprintable():
        raise ConfigError(
            f"{path} has the name of a file of the passport, or one that is no text; give it "
            "another name"
        )
    with computed([path]):
        facts = {**_facts(document), "verdict": verdict, "radii": radii, "file": name}
        facts |= {"size": len(content), "digest": hashlib.sha256(content).hexdigest()}
        texts = {"checker.html": draw("passport_checker.html.j2", **facts, word=shlex.quote(name))}
        plain = templates().overlay(autoescape=False, finalize=None)
        for record, empty in EMPTY.items():
            text = plain.get_template(f"passport_{record}.j2").render(**facts, empty=empty)
            texts[record] = f"{json.dumps(json.loads(text), indent=1, ensure_ascii=False)}\n"
    texts["verify.py"] = script.replace("FORMS: Any = {}", f"FORMS: Any = {document_rules()!r}")
    written = {record: text.encode() for record, text in texts.items()}
    paths = write_new(out, {name: content, **written})
    return {"document": paths.pop(name), **paths}


def _facts(document: Document) -> dict[str, Any]:
    """Return what the document says and what follows from it, by the names of the templates."""
    settings, account, signature = document.settings, document.account, document.signature
    rows, promise, safe = document.classes, settings.promise, settings.is_safe
    sizes = {row.class_name: getattr(row, "n_so_far", row.n) or 0 for row in rows}
    total = (settings.total or 0) if settings.secret else sum(sizes.values())
    joint = document.joint.hospitals if isinstance(document, JointDocument) else ()
    hospitals = [name for name, _ in joint]
    scales = (usual_difference(x.manifold, len(x.point)) for x in rows if x.point is not None)
    spent = account and account.spent and budget_from(account.definition, account.spent)
    return {
        **dict(document),
        "said": _Statement((title, text) for title, text in document.statement if text.strip()),
        "counts": sizes,
        "total": total,
        "hospitals": hospitals,
        "simulated": document.is_simulated,
        "whose": listing(hospitals) or settings.population,
        "implied": equivalent(promise, None, total),
        "certified": convert(promise, ZCDP),
        "success": best_test(promise, safe),
        "spent": spent and best_test(spent, safe),
        "ideal": best_test(promise, hardened=False),
        "usual": next(scales, None),
        "protects": protects(promise, safe),
        "fingerprint": signature and fingerprint(bytes.fromhex(signature.public_key)),
    }
