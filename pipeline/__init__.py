"""covdp: differentially private mean covariance descriptors of images.

One image array walks in at the top and leaves as a row of a Parquet file and a picture in a report:

    datasets      cards in data/*.toml → files with the right digest → chunks of uint8 images
    descriptors   image → covariance matrix of its pixel features; the proven bound on them
    geometry      six manifolds behind dist, log, exp; the certified Fréchet mean
    privacy       definitions, calibration, composition, conversion, the statement
    mechanisms    the laws of noise, drawn exactly, or by the published Markov chains
    release       the heart: mean → sensitivity → footpoint → calibrate → sample
    config        what a run is told, read from TOML
    experiments   the Monte Carlo engine
    results       the Parquet schema
    figures       table → charts
    report        one self-contained HTML page
    cli           the `covdp` command

Read `release` first. Prefect lives in `flows`, which this package never imports, but for the
command line that starts them.
"""

__version__ = "0.1.0"
