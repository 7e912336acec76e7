"""The signing key of a ledger: by it others know which ledger a document is of.

It is Ed25519, derived from the ledger's secret key, so every ledger has one from its first day, and
it is lost and restored with its ledger. Its public half goes to whoever checks documents; they
compare its fingerprint by telephone.
"""

import hashlib

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
