"""The paragraph "Methods": it follows the settings, every one of them, and cites what exists."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sample_documents import night_class_of, settings_of
from sample_runs import write_sample

from covdp import __version__
from covdp.descriptors import DESCRIPTORS
from covdp.experiments import EXPERIMENT_KINDS, EXPERIMENTS, MAIN, load_experiments
from covdp.experiments.kinds import SOURCES
from covdp.figures import words
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import MECHANISMS, NOISES
from covdp.privacy import DEFINITIONS, GDP, ApproxDP, convert
from covdp.privacy.rounding import digits_up
from covdp.publish import ReleaseConfig
from covdp.report import load_runs
from covdp.report.methods import Methods, methods, of_experiment, of_release, references
from covdp.report.run_page import methods_of_runs
from covdp.report.templates import word

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

ROOT = Path(__file__).resolve().parents[2]
RELEASE: Mapping[str, Any] = {
    "name": "nightly",
    "run_key": "monday",
    "population": "ward",
    "dataset": "ward.toml",
    "size": None,
    "splits": None,
    "descriptor": "oct5",
    "eta": 1e-6,
    "manifold": "spd-log-euclidean",
    "definition": "gdp",
    "budget": 0.5,
    "mechanism": "auto",
    "shares": None,
    "noise": "hardened",
    "images_per_person": None,
    "classes_per_person": None,
    "smallest_class": 2,
    "stream": None,
    "unit": "image",
    "image_height": 28,
    "image_width": 28,
    "classes": [[0, "well", 900], [1, "ill", 400]],
}
OTHER_RELEASE: Mapping[str, Any] = {
    "name": "weekly",
    "run_key": "tuesday",
    "population": "clinic",
    "dataset": "pneumoniamnist",
    "size": 64,
    "splits": ["train"],
    "descriptor": "grid9",
    "eta": 1e-5,
    "manifold": "spd-affine-invariant",
    "definition": "zcdp",
    "budget": 0.7,
    "mechanism": "ewg",
    "shares": [0.3, 0.1, 0.6],
    "noise": "float",
    "images_per_person": 3,
    "classes_per_person": 2,
    "smallest_class": 9,
    "stream": {"horizon": 90, "opening": 200.0, "follows": None},
    "image_height": 64,
    "image_width": 64,
    "image_depth": 28,
    "masked": True,
    "classes": [[0, "well", 901], [1, "ill", 400]],
    "labels": "secret",
}
"""Another value of every setting of a release."""
SAID_ELSEWHERE = {"title", "data_root", "file"}
"""The page's headline, and where images and config lie, which no document holds."""


def text(found: Methods) -> str:
    """Return all paragraphs, and what the tables say of series."""
    rows = [f"“{name}” is {told}" for _, table in found.tables for name, told in table.items()]
    return "\n".join([*(words for _, words in found.paragraphs), *rows])


def of(settings: Mapping[str, Any]) -> str:
    """Return the paragraph of a release."""
    return text(methods({"a": of_release(settings_of(settings))}))


@pytest.mark.parametrize("name", OTHER_RELEASE)
def test_a_release_that_is_told_otherwise_reads_otherwise(name: str) -> None:
    """Each setting of a release is in its paragraph: another value, another text."""
    assert of(RELEASE | {name: OTHER_RELEASE[name]}) != of(RELEASE)


def test_no_setting_of_a_release_is_left_out() -> None:
    """Every key of a release's config is changed above, and every one of its stream."""
    assert set(ReleaseConfig.model_fields) - SAID_ELSEWHERE <= set(OTHER_RELEASE)
    stream = dict(OTHER_RELEASE["stream"])
    for name, value in {"horizon": 80, "opening": 100.0, "follows": "older"}.items():
        assert of(RELEASE | {"stream": stream | {name: value}}) != of(RELEASE | {"stream": stream})


def test_the_promise_is_that_of_the_settings() -> None:
    """μ, the (ε, δ) it implies and g·μ for a person, to the last digit that is printed."""
    found = of(RELEASE | {"images_per_person": 4})
    implied = convert(GDP(0.5), ApproxDP, delta=1e-5)
    assert "at μ = 0.5 for one image" in found
    assert f"ε = {digits_up(implied.epsilon, 6)} at δ = 1·10⁻⁵" in found
    assert "for all images of a person with at most 4 of them μ = 2" in found
    assert "in theory" not in found.lower()
    assert "in theory the guarantee" in of(RELEASE | {"noise": "float"}).lower()


EXPERIMENT: Mapping[str, Any] = {
    "name": "mine",
    "title": "Mine",
    "dataset": "tiles",
    "seed": 3,
    "budgets": [0.5, 1.0],
    "mechanisms": [{"series": "A", "mechanism": "ewg"}],
}
OTHER_EXPERIMENT: Mapping[str, Any] = {
    "name": "yours",
    "paper": "“A paper”, Table 1",
    "kind": "timing",
    "dataset": "mnist",
    "beyond": True,
    "size": 64,
    "splits": ["test"],
    "classes": [1],
    "descriptor": "grid9",
    "eta": 1e-5,
    "manifold": "spd-log-cholesky",
    "definition": "zcdp",
    "budgets": [0.5],
    "delta": 1e-6,
    "alpha": 3.0,
    "baseline": "A",
    "repetitions": 7,
    "seed": 4,
    "mechanisms": [{"series": "B", "mechanism": "ewg"}],
    "nights": {"horizon": 30, "opening": 300.0, "units": [3, 4], "shown": [1, 2]},
    "source": {"kind": "ball", "dimensions": [2], "n": [40], "radius": 1.5},
    "composition": {"queries": [1, 2], "definitions": ["gdp"], "degree": 4.0},
}
OTHER_SERIES: Mapping[str, Any] = {
    "series": "B",
    "definition": "zcdp",
    "delta": 1e-6,
    "repetitions": 9,
    "measure": "chord",
    "analytic": False,
    "scale": 0.5,
    "aligned": False,
    "records": "one image",
    "n": 50,
    "total": 900,
    "nights": "one release",
    "of": "population",
    "batch": 8,
    "mechanism": "rl",
    "sampler": "chain",
    "sensitivity": "radius",
    "footpoint": "subsample",
    "subsample": 0.2,
    "footpoint_mechanism": "rl",
    "footpoint_share": 0.3,
    "footpoint_distance": 3.0,
    "burn_in": 77,
    "start": 0.25,
    "hospitals": [2, 1],
    "colluders": 1,
    "scanned": 0.2,
    "n_other": 60,
    "opening": 60.0,
    "budget_other": 2.0,
    "peer": "shifted clipped mean",
    "rare": "stripes",
    "rare_share": 0.01,
    "change": "gain",
    "amount": 1.1,
    "classifier": "lda",
    "scaling": "each class",
    "ridge": 0.2,
    "shares": [0.3, 0.1, 0.6],
}
WHERE: Mapping[str, Mapping[str, Any]] = {
    "analytic": {"definition": "approx", "delta": 1e-5},
    "burn_in": {"sampler": "chain"},
    "shares": {"footpoint": "adaptive"},
    "subsample": {"footpoint": "subsample"},
    "footpoint_mechanism": {"footpoint": "subsample"},
    "footpoint_share": {"footpoint": "all"},
    "footpoint_distance": {"footpoint": "at", "footpoint_distance": 2.0},
}
"""Where a setting of a series has a meaning."""
LAYOUT = {"title", "figure", "published", "claims", "panel", "open", "minutes", "variant"}
LAYOUT |= {"figures"}
"""What an experiment's page shows elsewhere: its headline, its figures, what is judged, and what
its source leaves open, which is said of the whole experiment and not of what ran; how long it takes
is said by the command that lists them."""


def ran(settings: Mapping[str, Any]) -> str:
    """Return the paragraph of an experiment, and its table."""
    sentences, series = of_experiment(settings)
    return text(methods({"a": sentences}, series={"a": series}))


def kind_of(key: str, where: str) -> str:
    """Return the first kind of experiment whose config, or series, has a key."""
    kinds = EXPERIMENT_KINDS.items()
    return next(name for name, kind in kinds if key in getattr(kind, where).model_fields)


@pytest.mark.addons
@pytest.mark.parametrize("name", [*OTHER_EXPERIMENT, *OTHER_SERIES])
def test_an_experiment_that_is_told_otherwise_reads_otherwise(name: str) -> None:
    """Each setting of an experiment and of a series is in its paragraph."""
    if name in OTHER_EXPERIMENT:
        own = EXPERIMENT | {"kind": kind_of(name, "config")}
        assert ran(own | {name: OTHER_EXPERIMENT[name]}) != ran(own)
    if name in OTHER_SERIES:
        own = EXPERIMENT | {"kind": kind_of(name, "series")}
        one = {**EXPERIMENT["mechanisms"][0], **WHERE.get(name, {})}
        other = one | {name: OTHER_SERIES[name]}
        assert ran(own | {"mechanisms": [other]}) != ran(own | {"mechanisms": [one]})


@pytest.mark.addons
def test_no_setting_of_an_experiment_is_left_out() -> None:
    """Every key of an experiment and of a series is changed above, and in tables every number."""
    kinds = EXPERIMENT_KINDS.values()
    keys = {key for kind in kinds for key in kind.config.model_fields}
    assert keys - LAYOUT == set(OTHER_EXPERIMENT)
    assert {key for kind in kinds for key in kind.series.model_fields} - LAYOUT == set(OTHER_SERIES)
    for table in ("nights", "source", "composition"):
        told = dict(OTHER_EXPERIMENT[table])
        for name, value in told.items():
            other = told | {name: [91] if isinstance(value, list) else "persons"}
            own = EXPERIMENT | {"kind": kind_of(table, "config")}
            assert ran(own | {table: other}) != ran(own | {table: told}), name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_published_experiment_has_a_paragraph(name: str) -> None:
    """No name without words, no setting printed as Python has it, every series named."""
    for config in load_experiments(name):
        found = ran(config.model_dump(mode="json"))
        assert not re.search(r"None|\{|\[|\b(True|False)\b|\.\.| ,|,,", found), found
        assert all(f"“{one.series}” is " in found for one in config.mechanisms)
        assert not re.search("“(distance|persons|stream|sample)”", found)


MOST = 280
"""Words of a paragraph that a paper can take as it is."""


@pytest.mark.parametrize(
    "more",
    [{}, {"labels": "secret"}, {"stream": OTHER_RELEASE["stream"]}, {"classes_per_person": 1}],
)
def test_the_paragraph_of_a_release_is_short(more: Mapping[str, Any]) -> None:
    """At most 280 words with labels public or secret, of a night, of persons; regions included."""
    found = of_release(settings_of(RELEASE | more))
    ((_, paragraph),) = methods({"a": found}, more=words()["analysis"]["release"]).paragraphs
    assert len(paragraph.split()) <= MOST, paragraph


@pytest.mark.parametrize("name", [*EXPERIMENTS, "main"])
def test_the_paragraph_of_a_run_is_short(name: str) -> None:
    """At most 280 words; the settings of several series are a table, a row each."""
    for config in load_experiments(MAIN if name == "main" else name):
        settings = config.model_dump(mode="json")
        sentences, series = of_experiment(settings)
        found = methods({"a": sentences}, series={"a": series})
        ((_, paragraph),) = found.paragraphs
        assert len(paragraph.split()) <= MOST, paragraph
        assert [list(rows) for _, rows in found.tables] == [
            [one.series for one in config.mechanisms]
        ] * (len(config.mechanisms) > 1)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_features_are_computed_as_the_descriptor_says(name: str) -> None:
    """Filters, border and normalisation are in the paragraph of a release and of a run."""
    wanted = DESCRIPTORS[name].formula
    for found in (of(RELEASE | {"descriptor": name}), ran(EXPERIMENT | {"descriptor": name})):
        plain = found.replace(" (van der Walt et al. 2014)", "")
        assert f"{wanted[0].upper()}{wanted[1:]}. " in plain
        assert ("scikit-image's (van der Walt et al. 2014)" in found) == ("scikit-image" in wanted)
    made = EXPERIMENT | {"source": OTHER_EXPERIMENT["source"]}
    assert "1/|S|" not in ran(made | {"descriptor": name})


def test_every_name_has_words() -> None:
    """Each member of the registries is said in words, and cites entries that exist."""
    known, told = words(), list[str]()
    for table, names in {
        "descriptor": DESCRIPTORS,
        "manifold": MANIFOLDS,
        "mechanism": ["auto", *MECHANISMS],
        "definition": DEFINITIONS,
        "noise": NOISES,
        "source": SOURCES,
        "kind": EXPERIMENT_KINDS,
    }.items():
        told += [word(table, name) for name in names]
    assert not [text for text in told if text.startswith("“")]
    told += [text for table in known.values() for text in table.values()]
    cited = set(re.findall(r"@(\w+)", " ".join(told))) | set(known["dataset"].values())
    assert cited <= set(references())


def test_the_entry_of_this_project_is_that_of_its_citation_file() -> None:
    """Title, author, year and version agree; a release of an older version cites that one."""
    own = references()["covdp"].fields
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert own["title"] == cited["title"]
    assert own["author"] == f"{{{cited['authors'][0]['name']}}}"
    assert own["year"] == str(cited["date-released"].year)
    assert own["version"] == cited["version"] == __version__
    older = methods({"a": of_release(settings_of(RELEASE))}, version="0.1.0")
    assert "version = {0.1.0}" in older.bibtex
    assert "covdp 0.1.0" in text(older)
    assert f"This page was made with covdp {__version__}" in text(older)


def test_what_was_compared_with_a_source_is_said_of_entries_that_exist() -> None:
    """The head of the file names entries; identifiers have the form of theirs, and are shown."""
    head, *_ = (ROOT / "reports" / "references.bib").read_text(encoding="utf-8").split("\n@")
    named = set(re.findall(r"\b[a-z]+[0-9]{4}\b", head))
    assert len(named) > 15
    assert named <= set(references())
    shown = {key: one.text for key, one in references().items()}
    for key, one in references().items():
        doi, number = one.fields.get("doi"), one.fields.get("eprint")
        assert doi is None or (
            re.fullmatch(r"10\.[0-9]{4,5}/[\w.()/-]+[\w)]", doi)
            and f". https://doi.org/{doi} (" in shown[key]
            and key in named  # none is given that no source has
        )
        assert number is None or re.fullmatch(r"[0-9]{4}\.[0-9]{5}", number)
        assert "\\" not in shown[key]


def test_bibtex_is_what_is_cited() -> None:
    """Every entry of a paragraph stands in its BibTeX once, braces balanced, and no other."""
    found = methods({"a": of_release(settings_of(RELEASE))})
    keys = re.findall(r"@\w+\{(\w+),", found.bibtex)
    assert keys == list(dict.fromkeys(keys)) == [one.key for one in found.references]
    assert "covdp" in keys
    for one in references().values():
        assert one.bibtex.count("{") == one.bibtex.count("}")
        assert {"title", "year"} <= set(one.fields)
        assert one.fields.get("author") or one.fields["key"]
        assert references("1")[one.key].label in one.label or one.key == "covdp"


def test_what_releases_have_in_common_is_said_once() -> None:
    """Two releases of other budgets: two promises, with whose each is, and one descriptor."""
    told = {
        "a": of_release(settings_of(RELEASE)),
        "b": of_release(settings_of(RELEASE | {"budget": 0.7})),
    }
    found = text(methods(told))
    assert found.count("Tuzel") == 1
    assert "For a: the guarantee is" in found
    assert "; for b: the guarantee is" in found
    apart = methods(told, series={"a": {}, "b": {}})
    assert [name for name, _ in apart.paragraphs] == ["a", "b"]
    assert text(apart).count("Tuzel") == 2


def test_a_night_has_the_size_of_its_mean() -> None:
    """The number of all so far, and how many came; before a mean, no mechanism is said."""
    night = RELEASE | {
        "stream": OTHER_RELEASE["stream"],
        "classes": [[0, "well", 10], [1, "ill", 3]],
    }
    rows = [
        {"class_name": "well", "n": 70, "n_tonight": 10, "point": [[1.0]]},
        {"class_name": "ill", "n": 3, "n_tonight": 3, "point": None},
    ]
    found = text(methods({"a": of_release(settings_of(night), list(map(night_class_of, rows)))}))
    assert "population ward, well n = 70 (10 new)" in found
    assert "n = 10" not in found
    assert "No mean is released yet of ill" in found
    assert "adaptive mean" in found
    waiting = [night_class_of(row | {"point": None}) for row in rows]
    none = text(methods({"a": of_release(settings_of(night), waiting)}))
    assert "No mean is released yet of well and ill" in none
    assert not re.search("adaptive mean|Noise was drawn|second moment", none)


def test_an_experiment_says_only_what_its_rows_hold(tmp_path: Path) -> None:
    """Series, budgets and repetitions of the rows; of a run without any, that it has none."""
    write_sample(tmp_path, budgets=2, repetitions=3, images=False)
    (run,) = load_runs(tmp_path)
    assert run.rows is not None
    config = dict(run.record.config)
    series = [one["series"] for one in config["mechanisms"]]
    budgets = sorted(set(run.rows["budget"].tolist()))
    run = replace(run, record=replace(run.record, config=config | {"budgets": budgets}))
    whole = text(methods_of_runs([run]))
    assert f" = {budgets[0]:g}, {budgets[1]:g}" in whole
    assert all(f"“{name}” is" in whole for name in series)
    assert "Repetitions: 3; seed" in whole
    keep = (run.rows["series"] == series[0]) & (run.rows["repetition"] < 2)
    keep &= run.rows["budget"] == budgets[0]
    fewer = replace(run, rows={name: column[keep] for name, column in run.rows.items()})
    part = text(methods_of_runs([fewer]))
    assert f"“{series[0]}” is" in part
    assert not any(f"“{name}” is" in part for name in series[1:])
    assert "Repetitions: 2; seed" in part
    assert "baseline is" not in part
    assert f" = {budgets[0]:g}" in part
    assert f"{budgets[0]:g}, {budgets[1]:g}" not in part
    lost = {**run.rows, "status": np.full(len(run.rows["status"]), "data not available", object)}
    none = methods_of_runs([replace(run, rows=lost), replace(run, rows=None)])
    for _, one in none.paragraphs:
        assert "has no result" in one
        assert not re.search("Repetitions|released|is the", one)
    assert [one.key for one in none.references] == ["covdp"]
