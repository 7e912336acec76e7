"""The folder of a passport: the document, the script that checks it, and records of it for others.

The records are templates of ``reports``, filled with what the document says and what follows from
it. Fields that it does not say are left empty, and each record names its own.
"""

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from covdp.addons.partners.passport.checking import verified
from covdp.addons.partners.passport.rules import document_rules
from covdp.errors import ConfigError
from covdp.files import make_folder, write_whole
from covdp.inference import usual_difference
from covdp.ledger.keys import fingerprint
from covdp.privacy import ZCDP, best_test, convert
from covdp.privacy.statement import equivalent, protects
from covdp.report.templates import draw, templates
from covdp.schema import Document, read_ours

EMPTY = {
    "croissant.json": ("license", "url", "datePublished", "creator", "citeAs"),
    "dcat.jsonld": (
        *("dct:accessRights", "dct:provenance", "dct:publisher", "dct:type"),
        *("dcat:contactPoint", "dcat:distribution", "dcat:theme", "dcatap:applicableLegislation"),
        *("healthdcatap:hdab", "healthdcatap:healthCategory", "healthdcatap:minTypicalAge"),
        *("healthdcatap:maxTypicalAge", "dpv:hasLegalBasis", "dpv:hasPurpose"),
    ),
    "registry.json": (
        *("data_curators", "intended_use", "data_product_region", "publication_date"),
        *("registry_authors", "data_domain", "actors", "post_processing", "justification"),
    ),
}
"""Fields of each record that no document says; whoever publishes a record fills them in."""


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
        The document has the name of a file of the passport.
    """
    verdict, radii, *_ = verified(path, key)
    content, name = path.read_bytes(), path.name
    if name in {*EMPTY, "checker.html", "verify.py"}:
        raise ConfigError(f"{path} has the name of a file of the passport; give it another name")
    folder = make_folder(out)
    facts = {**_facts(read_ours(json.loads(content))), "verdict": verdict, "radii": radii}
    facts |= {"file": name, "size": len(content), "digest": hashlib.sha256(content).hexdigest()}
    written = {"document": write_whole(folder / name, content)}
    plain = templates().overlay(autoescape=False, finalize=None)
    for record, empty in EMPTY.items():
        text = plain.get_template(f"passport_{record}.j2").render(**facts, empty=empty)
        lines = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
        written[record] = write_whole(folder / record, f"{lines}\n")
    sheet = draw("passport_checker.html.j2", **facts)
    script = files(__package__).joinpath("verify.py").read_text(encoding="utf-8")
    script = script.replace("FORMS: Any = {}", f"FORMS: Any = {document_rules()!r}")
    for name, text in (("checker.html", sheet), ("verify.py", script)):
        written[name] = write_whole(folder / name, text)
    return written


def _facts(document: Document) -> dict[str, Any]:
    """Return what the document says and what follows from it, by the names of the templates."""
    settings, signature = document.settings, document.signature
    sizes = [getattr(row, "n_so_far", row.n) or 0 for row in document.classes]
    total = (settings.total or 0) if settings.secret else sum(sizes)
    promise, rows = settings.promise, document.classes
    scales = (usual_difference(x.manifold, len(x.point)) for x in rows if x.point is not None)
    return {
        "document": document,
        "settings": settings,
        "account": document.account,
        "said": dict(document.statement),
        "counts": dict(zip((row.class_name for row in document.classes), sizes, strict=True)),
        "total": total,
        "implied": equivalent(promise, None, total),
        "certified": convert(promise, ZCDP),
        "success": best_test(promise, settings.is_safe),
        "ideal": best_test(promise, hardened=False),
        "usual": next(scales, None),
        "protects": protects(promise, settings.is_safe),
        "fingerprint": signature and fingerprint(bytes.fromhex(signature.public_key)),
    }
