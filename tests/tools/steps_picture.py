"""Draw the steps of one adaptive mean, of real records, as reports/steps.svg.

    python -m tests.tools.steps_picture

Records are the cells of `tiles` in two of their 15 axes: the contrast axis, to the right, and the
one off it in which they spread most. What is drawn is one release at n·μ = 873.
"""

from pathlib import Path

import numpy as np

from covdp import describe, domain, open_dataset
from covdp.arrays import FloatArray
from covdp.geometry import MANIFOLDS
from covdp.mean import AdaptivePlan, Records, Release, admit, draw, prepare
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP

SVG = Path(__file__).resolve().parents[2] / "reports" / "steps.svg"
WIDE, TALL, UNIT = 300, 260, 34.0
"""Pixels of a panel, and of the expected length of a record."""
SEED = 4


def main() -> None:
    """Draw and write."""
    images = np.concatenate(list(open_dataset("tiles").chunks(label=2)))
    name = "spd-log-euclidean"
    bounds = domain("oct5", height=28, width=28, manifold=name)
    records = admit(describe(images, "oct5"), domain=bounds, manifold=MANIFOLDS[name](k=5))
    noise = FloatNoise(np.random.default_rng(SEED))
    release, _ = draw(prepare(records, AdaptivePlan(), rng=None), GDP(0.5), noise=noise)
    SVG.write_text(picture(records, release), encoding="utf-8")
    print(SVG)


def picture(records: Records, release: Release) -> str:
    """Return the three panels."""
    seen, moments = np.asarray(records.seen.whole) / records.prior.unit, release.noisy_moments
    off = seen[:, 1:] - seen[:, 1:].mean(axis=0)
    across = np.append(0.0, np.linalg.svd(off, full_matrices=False)[2][0])
    across *= np.sign(seen.mean(axis=0) @ across)
    view = np.stack([np.eye(len(across))[0], across], axis=1)
    middle = seen.mean(axis=0) @ view / 2.0

    def at(place: FloatArray) -> FloatArray:
        """Return places in the axes, from the prior's centre, as pixels of a panel."""
        flat = np.atleast_2d(place) @ view - middle
        return np.asarray(flat * [UNIT, -UNIT] + [WIDE / 2, TALL / 2 + 10])

    base, unit = moments.base, records.prior.unit
    centre, end = (records.in_axes(base, place) / unit for place in (base, release.place))
    radius = float(np.linalg.norm(moments.axes[0])) / 2.0
    radius /= float(np.linalg.norm(records.frame.from_axes[0])) * records.prior.unit
    size = np.linalg.norm(seen - centre, axis=1)
    panels = [
        ("1  where: a mean clipped to a wide public ball", 0 * centre, 2.5, False),
        ("2  how wide: a noisy count by distance", centre, 0.0, False),
        ("3  the mean, clipped to the ball that leaves few outside", centre, radius, True),
    ]
    parts = list[str]()
    for number, (title, around, wide, last) in enumerate(panels):
        x, y = at(around)[0]
        rings = [wide] if wide else records.prior.edges / records.prior.unit
        body = [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{ring * UNIT:.1f}" class="ball"/>'
            for ring in rings
        ]
        for (a, b), length in zip(at(seen)[::8], size[::8], strict=True):
            outside = last and length > radius
            name = "far" if outside else "in"
            body.append(f'<circle cx="{a:.0f}" cy="{b:.0f}" r="1.6" class="{name}"/>')
        body.append(f'<path d="M{x - 5:.1f} {y:.1f}h10m-5 -5v10" class="centre"/>')
        if last:
            a, b = at(end)[0]
            body.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" class="end"/>')
        frame = f'<rect y="24" width="{WIDE - 10}" height="{TALL - 24}"/>'
        clip = f'<clipPath id="p{number}">{frame}</clipPath>'
        parts.append(
            f'<g transform="translate({number * WIDE} 0)">{clip}<text y="14">{title}</text>'
            f'<g clip-path="url(#p{number})">{"".join(body)}</g></g>'
        )
    style = (
        "text{font:12px sans-serif;fill:#333}.ball{fill:#4c78a81a;stroke:#4c78a8}.in{fill:#4c78a8}"
        ".far{fill:#e45756}.centre{stroke:#333;fill:none}.end{fill:#111}"
    )
    box = f'width="{3 * WIDE}" height="{TALL}" viewBox="0 0 {3 * WIDE} {TALL}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    main()
