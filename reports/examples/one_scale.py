# %% [markdown]
# # Three scanners on one scale
#
# Three hospitals have scanners of their own. Each releases the private mean of its images. From
# what they released, and nothing else, follows one map a hospital: with it the site of an image is
# hard to tell.

# %%
from pathlib import Path

import numpy as np

import covdp
from covdp.figures import bars
from covdp.inference import discriminants_of_means, harmonise

# %% [markdown]
# Tiles of one picture, dealt out to three hospitals, seen by a scanner with a gain of 1.3, and by
# one with more noise.

# %%
source = covdp.open_dataset("tiles")
tiles = np.concatenate(list(source.chunks(label=1)))
rng = np.random.default_rng(20260301)
dealt = np.array_split(rng.permutation(tiles), 3)
levels = {
    "North": dealt[0].astype(float),
    "South, gain 1.3": 1.3 * dealt[1],
    "West, noise": dealt[2] + rng.normal(0.0, 2.0, dealt[2].shape),
}
records = {
    name: covdp.describe(np.clip(np.rint(seen), 0, 255).astype(np.uint8), descriptor="oct5")
    for name, seen in levels.items()
}

# %%
limit = covdp.domain("oct5", height=tiles.shape[1], width=tiles.shape[2])
manifold = covdp.MANIFOLDS["spd-log-euclidean"](k=5)
released = {
    name: [
        covdp.private_mean(
            points, covdp.GDP(0.5), domain=limit, manifold=manifold, rng=covdp.LATTICE
        )[0]
    ]
    for name, points in records.items()
}

# %% [markdown]
# The documents of `covdp release` serve as well: `covdp harmonise A.json B.json C.json --out
# maps.json` does the same with a page, and `covdp describe --map maps.json --site A` applies it.

# %%
maps = harmonise(released)
mapped = {name: maps.map_of(name)(points) for name, points in records.items()}
for name, site in maps.sites.items():
    print(f"{name}: {site.apart:.2f} standard deviations apart, {site.left:.2f} expected after")

# %% [markdown]
# Of how many images the best linear classifier of single images, which each hospital could train on
# its own, still tells the site: a third is guessing.


# %%
def told(points: dict[str, np.ndarray]) -> float:
    """Return the share of images whose site linear discriminants tell."""
    means = [covdp.frechet_mean(own, manifold=manifold).point for own in points.values()]
    away = [manifold.log(mean, own) for mean, own in zip(means, points.values(), strict=True)]
    within = np.cov(np.concatenate(away).T)
    classifier = discriminants_of_means(manifold, np.stack(means), within)
    return float(
        np.mean([np.mean(classifier.predict(own) == i) for i, own in enumerate(points.values())])
    )


shares = {"as they are": told(records), "on one scale": told(mapped), "guessing": 1.0 / 3.0}
print(", ".join(f"{name}: {share:.2f}" for name, share in shares.items()))
picture = bars(
    list(shares),
    list(shares.values()),
    name="sites",
    title="Site of an image told",
    axis="share of images",
)
assert picture is not None
picture.save(Path("one_scale.svg"))
