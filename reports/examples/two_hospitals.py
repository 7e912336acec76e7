# %% [markdown]
# # Comparing two hospitals
#
# Each releases the private mean of its own images, on its own. From what they released, and nothing
# else: are their images alike, and what do they say together?

# %%
from pathlib import Path

import numpy as np

import covdp
from covdp.addons.nights.timelines import comparison
from covdp.descriptors import terms_of
from covdp.inference import combine, region, two_sample
from covdp.publish.readings import Mean, read_terms

# %% [markdown]
# Tiles of one picture, dealt out to three hospitals. The device of the third is set to a gain of
# 1.15, which the eye hardly sees.

# %%
source = covdp.open_dataset("tiles")
tiles = np.concatenate(list(source.chunks(label=1)))
dealt = np.array_split(np.random.default_rng(20260301).permutation(tiles), 3)
brighter = np.clip(np.rint(1.15 * dealt[2].astype(float)), 0, 255).astype(np.uint8)
hospitals = {"North": dealt[0], "South": dealt[1], "West, gain 1.15": brighter}

# %%
limit = covdp.domain("oct5", height=tiles.shape[1], width=tiles.shape[2])
released = {
    name: covdp.private_mean(
        covdp.describe(images, descriptor="oct5"),
        covdp.GDP(0.5),
        domain=limit,
        manifold="spd-log-euclidean",
        rng=covdp.LATTICE,
    )[0]
    for name, images in hospitals.items()
}

# %% [markdown]
# From here on only what was released is read, so it costs no privacy. The documents of
# `covdp release` serve as well, and `covdp compare A.json B.json` does the same with a page.

# %%
north, south, west = released.values()
alike, other = two_sample(north, south), two_sample(north, west)
print(f"North and South: p = {alike.p_value:.2g}; North and West: p = {other.p_value:.2g}")

together = combine([north, south])
print(f"North and South: the mean of all lies within {together.all.radius:.2f} (95 %)")

# %% [markdown]
# What a mean says, in terms that readers of images use: the third has 15 % more contrast. It is
# also a little rougher, as its gray levels were rounded twice.

# %%
records = []
for name, release in released.items():
    where = region(release, of="sample")
    mean = Mean(where.place, where.covariance)
    for one in read_terms(terms_of(covdp.DESCRIPTORS["oct5"]), mean, where.manifold):
        labels = {"term": one.term.title, "hospital": name, "class": "retina"}
        records.append({**labels, "value": one.value, "low": one.low, "high": one.high})
picture = comparison(
    records,
    name="hospitals",
    title="Three hospitals",
    along="hospital",
    classes=["retina"],
    caption="Values with their bands of 95 %.",
)
picture.save(Path("two_hospitals.svg"))
