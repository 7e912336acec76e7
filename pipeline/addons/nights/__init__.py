"""Nights: one release a night, which each image or person pays for once.

stream     the mechanism: openings, epochs, noise of all nights
ledger     streams in the account
night      one night: digest, reserve, draw, commit (arrivals, sums, followed)
experiment        nights of an experiment
changes           tests whether the last nights differ from those before
history_page      all releases of a population (timelines: its figures)
"""
