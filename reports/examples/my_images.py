# %% [markdown]
# # Private means of my own images
#
# From arrays of images to private mean descriptors, one a class, with the region that the true mean
# lies in. Nothing here keeps count of what was spent: releases that leave the house are made by
# `covdp release`, which pays for them from a ledger.

# %%
from pathlib import Path

import numpy as np

import covdp
from covdp.figures import matrices
from covdp.inference import region

# %% [markdown]
# Your images: by class an array of bytes, (n, height, width), all of one size. Here tiles of
# pictures that come with the package stand for them. What classes there are, and how many images
# each has, is public.

# %%
source = covdp.open_dataset("tiles")
images = {
    name: np.concatenate(list(source.chunks(label=label)))
    for label, name in enumerate(source.classes)
}

# %% [markdown]
# The budget is for one image, whatever class it is in: classes share no image, so all of them
# together cost what one costs. μ = 0.5 lets the best attacker who guesses whether an image was
# among them be right 60 times in 100, where a coin is right 50 times.

# %%
budget = covdp.GDP(0.5)
means, regions = {}, {}
for name, pictures in images.items():
    records = covdp.describe(pictures, descriptor="oct5")
    limit = covdp.domain("oct5", height=pictures.shape[1], width=pictures.shape[2])
    release, _ = covdp.private_mean(
        records, budget, domain=limit, manifold="spd-log-euclidean", rng=covdp.LATTICE
    )
    means[name], regions[name] = release.point, region(release, level=0.95)

# %% [markdown]
# What may leave: the means, and what follows from them. A region that is not offered says nothing.

# %%
for name, where in regions.items():
    said = f"within {where.radius:.2f}" if where.offered else "not known"
    print(f"{name}: n = {len(images[name]):,}, the true mean lies {said} (95 %)")

features = covdp.DESCRIPTORS["oct5"].features
picture = matrices(means, features)
picture.save(Path("my_images.svg"))
