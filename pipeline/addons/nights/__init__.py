"""Nights: one release a night, which each image or person pays for once.

stream     the mechanism: openings, epochs, noise of all nights
account    streams in the account (ledger: what is done with them)
schema     the document of a night (transcript: what all of them say, read back)
certainty  what is stated of the error of a mean, and which openings are too small
config     the table [stream] (release: what is done with a release that has it)
night      one night: digest, reserve, draw, commit (arrivals, sums, followed)
planning          what is foreseen of a stream
experiment        nights of an experiment
changes           tests whether the last nights differ from those before
night_page        blocks of the page of a night
history           all releases of a population (history_page: their page; timelines: its figures)
"""
