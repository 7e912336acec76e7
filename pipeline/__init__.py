"""covdp: differentially private mean covariance descriptors of images.

One image array walks in at the top and leaves as a row of a Parquet file and a picture in a report.
The rooms of the ground floor, in reading order:

    mean          the heart, read first: every private mean is planned, bounded and drawn here
    datasets      cards in data/*.toml → files with the right digest → chunks of uint8 images
    descriptors   image → covariance matrix of its pixel features; what is proven of it
    store         one pass over the images: descriptors in shards, read back by class
    geometry      manifolds behind dist, log, exp; the bounds of a metric; means
    privacy       definitions, calibration, composition, conversion, the statement
    mechanisms    the laws of noise, drawn exactly
    schema        the models of the committed document, which everybody reads it by
    inference     what a released mean says: its region, and what it is good for
    config        the settings of a run, and what is printed or claimed of its results, from TOML
    results       the Parquet schemas
    figures       table → charts
    publish       from a ledger's account to files that hold private values and nothing else
    experiments   the Monte Carlo engine, and one TOML an experiment
    report        self-contained HTML pages
    planning      what a release will be like, from public numbers
    cli           the `covdp` command

The upper floor, which the ground floor never imports and asks for members by name (`registry`):

    addons        papers, hospital, nights, partners, audit

`errors`, `arrays` and `files` are what every room may use. `runs` has all steps of a run, `jobs` of
a release, which `cli` does here, and `flows` under Prefect; this package imports neither.

The public face, imported when it is first used, is listed in ``__init__.pyi``.
"""

import lazy_loader

if __name__ != "covdp":  # the folder itself, found on the path of a checkout
    raise ImportError(f"`{__name__}` is the folder of covdp; write `import covdp` after `make run`")
__version__ = "0.4.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
