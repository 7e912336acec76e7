"""Papers: the published experiments and our own claims.

composition, timing, peers, regions   kinds of experiments
simulated     records that are drawn, no images
baselines     mechanisms that the papers compare with (generalized_gaussian: what one costs)
chains        the Markov chains of the papers
space_forms, kendall                  manifolds of the papers
verdicts      statements of papers and our own claims, judged by rows
blocks        what of the page of an experiment is of papers
errata        where the papers are wrong, and we were
site          the pages of several experiments: an index and a page each
commands      reproduce
"""
