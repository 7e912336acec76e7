"""The signing key of a ledger: by it others know which ledger a document is of.

It is Ed25519, derived from the ledger's secret key, so every ledger has one from its first day, and
it is lost and restored with its ledger. Its public half goes to whoever checks documents; they
compare its fingerprint by telephone.

**What is signed** of a document is all of it but the value of the signature itself::

    value = bytes.fromhex(document["signature"].pop("value"))
    text = b"covdp document " + json.dumps(document, sort_keys=True).encode()
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(…["public_key"])).verify(value, text)

So the key and the date are signed, too, and nothing that the key signs elsewhere is a document.
One document has one set of bytes, those of `signed`: `covdp verify` refuses the same values in
another order, with other blanks, a byte-order mark or capital digits.
"""

import hashlib
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from covdp.ledger.journal import mac_of


def signing_key(key: bytes) -> Ed25519PrivateKey:
    """Return the signing key of a ledger: always the same, and `key` cannot be found from it.

    Parameters
    ----------
    key : bytes
        Secret key of the ledger, 32 bytes.
    """
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(mac_of(key, "signature\0")))


def fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public key, as people read it out: eight groups of four.

    Parameters
    ----------
    public : bytes
        Public key, 32 bytes.
    """
    digest = hashlib.sha256(public).hexdigest()[:32]
    return "-".join(digest[i : i + 4] for i in range(0, 32, 4))


def public_text(key: Ed25519PrivateKey) -> str:
    """Return the public half of a signing key as PEM, below a line with its fingerprint.

    Parameters
    ----------
    key : Ed25519PrivateKey
        Signing key of a ledger.
    """
    public = key.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return f"fingerprint {fingerprint(public.public_bytes_raw())}\n{pem}"


def is_signed(content: bytes) -> bool:
    """Return True unless a result is a document without a signature; other programs commit others.

    Parameters
    ----------
    content : bytes
        Result of a release or a night.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return True
    return not isinstance(values, dict) or "settings" not in values or "signature" in values


def signed(key: Ed25519PrivateKey, content: bytes, date: str | None = None) -> bytes:
    """Return a document with its signature; what `is_signed` stays as it is.

    Parameters
    ----------
    key : Ed25519PrivateKey
        Signing key of the ledger.
    content : bytes
        Document, JSON in UTF-8.
    date : str, optional
        Time of signing, of a document that was committed without a signature.
    """
    if is_signed(content):
        return content
    values, public = json.loads(content), key.public_key().public_bytes_raw().hex()
    values["signature"] = {"algorithm": "Ed25519", "public_key": public}
    if date is not None:
        values["signature"]["date"] = date
    text = b"covdp document " + json.dumps(values, sort_keys=True).encode()
    values["signature"]["value"] = key.sign(text).hex()
    return json.dumps(values, sort_keys=True).encode()
