"""Papers: the published experiments and our own claims.

composition, timing, peers, regions   kinds of experiments
simulated     records that are drawn, no images
chains        the Markov chains of the papers
space_forms, kendall                  manifolds of the papers
findings      what rows prove, statements judged by it, and what was found, in sentences
errata        where the papers are wrong, and we were
site          the page of one experiment, or an index and a page each
"""
