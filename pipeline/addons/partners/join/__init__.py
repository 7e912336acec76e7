"""Several hospitals release one mean, and nobody sees their sums.

    study.toml ─► approve, paid ─► shares of noise, masked ─► totals, opened ─► one release each

study       terms that all hospitals approve
shares      noise of one hospital, and what all of it promises
site        one hospital in step with the others: signatures, masks, totals
account     its entries in the ledger: what was drawn and opened, studies that were withdrawn
schema      document: a release, who took part, and what is promised beside (promises.toml)
hospital    one hospital from its images to its release
engine      NVFlare, which carries what they say
commands    admit, approve, run, status, withdraw
"""
