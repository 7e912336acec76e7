"""Experiments: the Monte Carlo engine, and one TOML for each experiment."""
