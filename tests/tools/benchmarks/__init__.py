"""Benchmarks: ours and a peer side by side in one run, as ratios. `make bench` runs them all."""
