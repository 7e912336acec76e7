"""Publishing: from a ledger's account to files that hold private values and nothing else.

    config     the settings of a release, all of them public, and where the account is
    release    digest ─► reserve ─► draw with hardened noise ─► commit: the bytes that may leave
               (redact: what is not stated of images)
    document   those bytes: what they say, and the file (their schema: `covdp.schema`)
    readings   what a document says in terms, with bands
    drawn      documents of means that Python drew, which no ledger paid

    preview    images as they enter, and what a release would do: in the clear, for their owner

Between `release` and the rest only the committed bytes pass.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
