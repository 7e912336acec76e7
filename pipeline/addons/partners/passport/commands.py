"""Commands for outsiders: the passport of a release, and its verification."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from covdp.cli.options import PLAIN, Printing, Written
from covdp.cli.streams import complain

UNVERIFIED = 4
"""Exit code where something does not hold of a document."""


Key = Annotated[Path | None, Parameter(help="Public key, as `covdp ledger key` prints it [none].")]


def passport(
    release: Path,
    /,
    *,
    key: Key = None,
    out: Annotated[Path, Written(help="Folder of the passport.")],
    output: Printing = PLAIN,
) -> None:
    """Write files for those who receive a release: records for catalogues, a sheet, a script.

    `croissant.json` is for machine learning, `dcat.jsonld` for a catalogue of health data, and
    `registry.json` for the registry of deployments of differential privacy. `checker.html` is one
    printed page for output checkers. `verify.py` checks the document with NumPy and cryptography
    alone. The files say nothing that the document does not say. Fields that are left empty are
    named. A file that is there with other content is not replaced. The exit code is 4 if the
    document has a fault.

    ```
    covdp passport results/release/pneumonia-2026-11-23.json --out passport
    python passport/verify.py passport/pneumonia-2026-11-23.json
    ```

    Parameters
    ----------
    release
        The document of a release or of a night, `OUT/release/*.json`.
    """
    from covdp.addons.partners.passport.folder import EMPTY, write_passport

    paths = _or_refuse(lambda: write_passport(release, key, out))
    lines = [f" left empty in {name}: {', '.join(fields)}" for name, fields in EMPTY.items()]
    output.answer({"empty": EMPTY}, *lines, paths=paths)


def verify(
    release: Path,
    /,
    *,
    key: Key = None,
    output: Printing = PLAIN,
) -> None:
    """Check a release or a night: form, signature, and each number that follows from others.

    The command needs no ledger and no image. Names, texts and dates are protected by the signature
    alone. Unknown fields are refused, and signed documents whose bytes were changed. Without
    `--key` it cannot tell which ledger has signed the document: ask the hospital for its key, and
    compare the fingerprint by telephone. The exit code is 4 if the document has a fault, or if the
    file of the key is not the one key that signed. The script `verify.py` of a passport prints the
    same.

    ```
    covdp verify results/release/pneumonia-2026-11-23.json
    covdp verify north.json --key north.pem
    ```

    Parameters
    ----------
    release
        The document of a release or of a night, `OUT/release/*.json`.
    """
    from covdp.addons.partners.passport.checking import verified

    verdict, radii, law, *_ = _or_refuse(lambda: verified(release, key))
    classes = [{"name": name, "radius": radius} for name, radius in radii.items()]
    lines = [f" {escape(name)}: {law} {x:.6g}" for name, x in radii.items()]
    output.answer({"verdict": verdict, "classes": classes}, verdict, *lines)


def _or_refuse(work: Callable[[], Any]) -> Any:
    """Return what is made of a document; exit where something does not hold of it."""
    from covdp.addons.partners.passport.verify import UnverifiedError

    try:
        return work()
    except UnverifiedError as error:
        complain(error)
        sys.exit(UNVERIFIED)
