"""Maps from releases beside neuroCombat, a peer that sees all images: the same sites, both scored.

neuroCombat 0.2.12 (Fortin et al., NeuroImage 167, 2018) is given the coordinates of every image
without noise, its site, and its class as a covariate; the maps know what sites release.
"""

from pathlib import Path

import numpy as np

from covdp.addons.partners.harmonising import SCALINGS, Division, read_sites, score
from covdp.arrays import FloatArray
from covdp.experiments import EXPERIMENTS, Run, load_experiments

SITES, IMAGES, DIVISIONS = 5, 1000, 8


def combat(division: Division) -> FloatArray:
    """Return the images of all sites as neuroCombat puts them on one scale, (s, n, d)."""
    import pandas as pd  # half a second: in one process of the suite
    from neuroCombat import neuroCombat  # type: ignore[import-untyped]

    places, truth = division.coordinates, division.sites.truth[division.rows]
    sites = np.repeat(np.arange(len(places)), places.shape[1])
    known = pd.DataFrame({"site": sites, "ill": truth.ravel()})
    flat = places.reshape(len(known), -1).T
    scaled = neuroCombat(flat, known, "site", categorical_cols=["ill"])["data"]
    return np.asarray(scaled.T.reshape(places.shape))


def test_maps_from_releases_come_near_what_a_peer_does_on_exact_data(
    shared: Path, tmp_path: Path
) -> None:
    """Discriminants tell the site of at most 0.26 of the images, by neuroCombat of 0.2 by chance.

    As they are, of 0.43. At μ = 0.5, over 60 divisions of PneumoniaMNIST, 0.245 with a standard
    deviation of 0.012, and 0.177 with 0.007: of the mean of 8 one seed in 5,000 fails, nearly all
    by the first. `ours-harmonise` judges 0.25 over 50. The AUC of pneumonia at a site not trained
    on is lower than as they are, and than by neuroCombat, by no more than 0.005: single divisions
    differ by 0.0014 at most.
    """
    (config,) = load_experiments(EXPERIMENTS["ours-harmonise"])
    series = next(one for one in config.mechanisms if one.scaling == "all images")
    run = Run(config, shared, tmp_path)
    sites, setting = read_sites(run, run.labels[0])
    rng, scores = np.random.default_rng(20261124), []
    for _ in range(DIVISIONS):
        rows = rng.permutation(len(sites.truth))[: SITES * IMAGES].reshape(SITES, IMAGES)
        division = Division(sites, setting, rows, 0.5, rng)
        order, truth = rng.permutation(rows.size), sites.truth[rows]
        scaled = SCALINGS["all images"](division, series), combat(division)
        scores.append([score(one, truth, order) for one in (division.coordinates, *scaled)])
    (plain, ours, theirs), (auc, ours_auc, their_auc) = np.mean(scores, axis=0).T[:2]
    assert plain > 0.35
    assert ours < 0.26
    assert theirs < 1.0 / SITES
    assert ours_auc > max(auc, their_auc) - 0.005
