"""Verification by covdp: what the script verifies, and the schema of documents besides."""

import json
from pathlib import Path

from pydantic import ValidationError

from covdp.addons.partners.foreign import DOCUMENT_BYTES
from covdp.addons.partners.passport.rules import document_rules
from covdp.addons.partners.passport.verify import UnverifiedError, verify
from covdp.errors import OutputError
from covdp.files import read_regular
from covdp.schema import Document, first_fault, model_of


def verified(path: Path, key: Path | None) -> tuple[str, dict[str, float], str, bytes, Document]:
    """Return the verdict, the size of each 95 % region and of what it is, bytes and document.

    Parameters
    ----------
    path : Path
        File of the document.
    key : Path or None
        File with what ``covdp ledger key`` printed; the signer is not compared when None.

    Raises
    ------
    OutputError
        When a file cannot be read.
    UnverifiedError
        The first that does not hold; also whatever a forged document makes fail.
    """
    try:
        content, *keys = (read_regular(file, DOCUMENT_BYTES) for file in (path, key) if file)
    except OSError as error:
        way = "give OUT/release/*.json, and as key what `covdp ledger key` printed"
        raise OutputError(f"cannot read {error.filename} ({error.strerror}); {way}") from error
    try:
        verdict, radii, law = verify(content, keys[0] if keys else None, document_rules())
        values = json.loads(content)
        return verdict, radii, law, content, model_of(values).model_validate(values)
    except (UnverifiedError, ValidationError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise UnverifiedError(f"{path}: {fault}") from error
