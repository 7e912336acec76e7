"""What a run is told: every file of ours loads, and a slip never falls back to a default."""

from pathlib import Path

import pytest

from covdp.errors import CovdpError
from covdp.experiments import MAIN, load_experiments

TEXT = MAIN.read_text(encoding="utf-8")


def refused(tmp_path: Path, text: str) -> str:
    """Return the one line that loading `text` is refused with."""
    path = tmp_path / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CovdpError) as caught:
        load_experiments(path)
    line = str(caught.value)
    assert "\n" not in line
    assert "experiment.toml" in line
    return line


def test_main_job_is_the_published_setting_and_ours() -> None:
    """The built-in job: five mechanisms as published, two with D/n, and the adaptive mean.

    All are of one budget, and only what reads a footpoint pays for one.
    """
    (config,) = load_experiments(MAIN)
    pairs = {(series.mechanism, series.sensitivity) for series in config.mechanisms[:-1]}
    assert config.mechanisms[-1].footpoint == "adaptive"
    published = {(name, "radius") for name in ("ewl", "ewg", "rl", "kng", "tangent-gaussian")}
    assert pairs == published | {("ewg", "diameter"), ("rl", "diameter")}
    assert {series.definition for series in config.mechanisms} == {None}
    paid = {x.mechanism for x in config.mechanisms if x.footpoint in ("all", "subsample")}
    assert paid == {"ewl", "ewg"}
    assert config.repetitions == 30
    assert config.baseline in {series.series for series in config.mechanisms}


def test_options_replace_what_the_file_says() -> None:
    """A dataset and a seed given on the command line win over the file."""
    (config,) = load_experiments(MAIN, dataset="breastmnist", seed=3)
    assert (config.dataset, config.seed, config.run_name) == ("breastmnist", 3, "main-breastmnist")
    with pytest.raises(CovdpError, match=r"main\.toml --repetitions 0: key 'repetitions': must be"):
        load_experiments(MAIN, repetitions=0)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("repetitions =", "repetition =", "did you mean 'repetitions'"),
        ("footpoint_share = 0.1", "footpoint_shar = 0.1", "did you mean 'footpoint_share'"),
        ("footpoint_share = 0.1", "footpoint_share = 1.5", "less than 1"),
        ("budgets = [0.1,", "budgets = [-0.1,", "greater than 0"),
        ("budgets = [0.1,", "budgets = [nan,", "finite"),
        ('definition = "gdp"', 'definition = "gpd"', "gdp"),
        (
            'baseline = "EWG as',
            'baseline = "EGW as',
            "unknown baseline 'EGW as published'; did you",
        ),
        ('series = "RL with D/n"', 'series = "EWG with D/n"', "differ"),
        ('sensitivity = "radius"', 'sensitivity = "radios"', "radius"),
        ("seed =", "seed = oops #", "not valid TOML"),
        ("seed =", f"seed = {'9' * 5000} #", "no settings are as long"),
        ("seed =", f"deep = {'[' * 100_000}{']' * 100_000}\nseed =", "no settings are as long"),
        (
            'footpoint = "subsample"',
            'footpoint = "subsample"\nshares = [0.2, 0.1, 0.7]',
            "adaptive",
        ),
        ('footpoint = "adaptive"', 'footpoint = "adaptive"\nsampler = "chain"', "exactly"),
        (
            'footpoint = "adaptive"',
            'footpoint = "adaptive"\nshares = [0.5, 0.5]',
            "shares must be 5",
        ),
        (
            'footpoint = "adaptive"',
            'footpoint = "adaptive"\nshares = [0.2, 0.1, 0.2, 0.1, 0.3]',
            "sum to 1",
        ),
        ('title = "Private mean descriptors per class"', "", "title"),
        ('footpoint = "adaptive"', "vary = 5", "a label and keys of the series, as"),
        ('footpoint = "adaptive"', "vary = [{ few = 5 }]", "found {'few': 5}"),
        ('footpoint = "adaptive"', "vary = [{ few = { m = 5 } }]", ".m' is not known"),
        ('footpoint = "adaptive"', "vary = [{}]", "found {}"),
        (
            'footpoint = "adaptive"',
            f"vary = [{', '.join(['{ a = {}, b = {} }'] * 60)}]",
            "with 1,152,921,504,606,846,976 choices",
        ),
    ],
)
def test_a_slip_is_refused_with_the_way_out(tmp_path: Path, old: str, new: str, words: str) -> None:
    """A misspelt key, an impossible value or broken TOML is one line that helps."""
    assert old in TEXT
    assert words in refused(tmp_path, TEXT.replace(old, new, 1))


def test_a_series_that_varies_stands_for_each_choice_of_rows(tmp_path: Path) -> None:
    """The first table varies slowest; a row may set several keys, and the last one wins."""
    vary = """footpoint = "adaptive"
scale = 3.0

[[mechanisms.vary]]
low = { scale = 1.0 }
high = { scale = 2.0, repetitions = 7 }

[[mechanisms.vary]]
"of all" = {}
few = { repetitions = 5 }
"""
    path = tmp_path / "experiment.toml"
    path.write_text(TEXT.replace('footpoint = "adaptive"\n', vary), encoding="utf-8")
    (plain,), (varied,) = load_experiments(MAIN), load_experiments(path)
    name = plain.mechanisms[-1].series
    assert varied.mechanisms[:-4] == plain.mechanisms[:-1]
    assert [(one.series, one.scale, one.repetitions) for one in varied.mechanisms[-4:]] == [
        (f"{name}, low, of all", 1.0, None),
        (f"{name}, low, few", 1.0, 5),
        (f"{name}, high, of all", 2.0, 7),
        (f"{name}, high, few", 2.0, 5),
    ]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is one line with its path."""
    with pytest.raises(CovdpError, match=r"cannot read .*nothing\.toml"):
        load_experiments(tmp_path / "nothing.toml")
