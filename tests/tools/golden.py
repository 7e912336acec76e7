"""Golden digests: what the pipeline computes, bit for bit, whatever its parts are called.

``python -m tests.tools.golden`` runs experiments, releases, nights, persons and tests of tiny size
in one process and compares the SHA-256 of each Parquet column, and of each leaf of each document,
with ``golden.json``. Its exit code is 1 where one differs. A column or a key that is renamed has
gone and come under another name with the same digest: ``--rename`` writes the new names, and writes
nothing where a number differs. ``--write`` writes what it finds, whatever that is.

NumPy computes as on a processor with AVX2, which others than x86 have not: where NumPy, SciPy and
the C library round otherwise, names are compared and numbers are not. The test is skipped then.

Noise is replayed: the vector that is noised, and σ, are the seed. So noise does not depend on the
order of draws. Versions, times and paths are left out; of texts only the numbers count.
"""

import argparse
import hashlib
import json
import math
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # tests that import this start processes, which are to add as they do
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    # sums have the same order, and functions the same bits, on processors that can do more
    os.environ |= {"OPENBLAS_CORETYPE": "Haswell"}
    os.environ["NPY_DISABLE_CPU_FEATURES"] = (
        "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
    )

GOLDEN = Path(__file__).with_suffix(".json")

LEFT_OUT = {"version", "seconds", "dataset", "signature"}
"""Columns and keys that depend on the day, the machine, the path or a ledger's key."""

TEXTS = {"statement", "title"}
"""Keys whose texts may be reworded, but for their numbers."""

OTHER_ROUNDING = "libraries round otherwise on this machine: names are compared, numbers are not"
"""What is said where the numbers of a golden digest are not compared."""

ARITHMETIC = "arithmetic"
"""The part that no code of ours has computed."""

Digests = dict[str, dict[str, str]]
"""The digest of each name of each part."""


# what is called of the pipeline: all that depends on its names


def run_experiment(config: Path, out: Path) -> Path:
    """Run an experiment and return its table, as `covdp run --config` does."""
    from covdp.experiments import Run, load_experiments
    from covdp.experiments import run_experiment as run

    (loaded,) = load_experiments(config)
    return run(Run(loaded, None, out), needs_data=True)


def make_ledger(address: Path, populations: dict[str, float]) -> None:
    """Make a ledger with the μ of each population, as `covdp ledger init` and `set-budget` do."""
    from covdp.ledger import init_ledger
    from covdp.privacy import GDP

    ledger = init_ledger(address)
    for name, budget in populations.items():
        ledger.set_budget(name, GDP(budget))


def release(config: Path, run_key: str, ledger: Path, out: Path) -> tuple[Path, Path]:
    """Release, or a night, and return document and table, as `covdp release` does."""
    from covdp.addons.nights.night import release_night
    from covdp.ledger import init_ledger
    from covdp.publish import (
        load_release,
        read_document,
        release_once,
        write_document,
        write_parquet,
    )

    loaded = load_release(config, run_key=run_key)
    work = release_night if loaded.stream else release_once
    document = write_document(work(loaded, init_ledger(ledger), config.parent), out)
    return document, write_parquet(read_document(document), document.with_suffix(".parquet"))


def several(command: str, *documents: Path) -> Any:
    """Return what `covdp compare` or `covdp combine` prints with ``--json``."""
    from covdp.cli import main

    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
        assert main([command, *map(str, documents), "--json"]) == 0
    return json.loads(printed.getvalue())


def regions(document: Path) -> dict[str, Any]:
    """Return the regions of the classes of a release or of a night."""
    from covdp.inference import region

    rows = json.loads(document.read_text())["classes"]
    found = dict[str, Any]()
    for mean in ("sample", "population"):
        each = [region(row, level=0.95, of=mean) for row in rows]
        for name in ("offered", "radius", "covariance", "centre"):
            found[f"{mean}.{name}"] = [plain(getattr(one, name)) for one in each]
    return found


def tests_and_classes(document: Path) -> dict[str, Any]:
    """Return a test and a classifier of the classes of a release."""
    import numpy as np

    from covdp.inference import lda, two_sample

    rows = json.loads(document.read_text())["classes"]
    points = np.array([row["point"] for row in rows])
    test, classifier = two_sample(*rows[:2]), lda(rows)
    return {
        "statistic": test.statistic,
        "p_value": test.p_value,
        "predict": plain(classifier.predict(points)),
        "score": plain(classifier.score(points)),
    }


def mean_of_tiles(manifold: str, plan: str) -> dict[str, Any]:
    """Return the private mean of a class by NumPy's generator, and its mean without noise."""
    import numpy as np

    from covdp import GDP, MANIFOLDS, describe, domain, open_dataset, private_mean
    from covdp.mean import admit

    images = np.concatenate(list(open_dataset("tiles").chunks(label=0)))
    points, space = describe(images, descriptor="oct5", eta=1e-6), MANIFOLDS[manifold](k=5)
    known = domain("oct5", height=28, width=28, eta=1e-6, manifold=manifold)
    rng = np.random.default_rng(7)
    released, nonprivate = private_mean(
        points, GDP(1.0), domain=known, manifold=space, plan=plan, rng=rng
    )
    exact = admit(points, domain=known, manifold=space).barycentre.point
    return {"point": plain(released.point), "error": nonprivate.error, "exact": plain(exact)}


# what is run

MAIN = """
name = "golden"
title = "Golden"
dataset = "tiles"
classes = [0, 2]
budgets = [0.5]
repetitions = 2
seed = 20261123
"""

SPHERE = """
name = "golden-sphere"
title = "Golden"
dataset = "simulated"
manifold = "sphere"
definition = "pure"
budgets = [1.0]
repetitions = 2
seed = 20261124

[source]
kind = "ball"
dimensions = [2]
n = [50]
radius = 0.39
"""

PERSONS = """
name = "golden-persons"
title = "Golden"
dataset = "simulated"
budgets = [1.0]
repetitions = 2
seed = 20261125

[source]
kind = "persons"
dimensions = [15]
n = [60]
radius = 31
between = 1.5
within = 1.5
sizes = [1, 1, 2, 5]
"""

EXPERIMENTS = {
    "flat": (
        MAIN,
        {"mechanism": "ewl", "definition": "pure"},
        {"mechanism": "ewg", "sensitivity": "radius", "footpoint": "subsample"},
        {"mechanism": "rl", "footpoint": "subsample", "footpoint_mechanism": "rl"},
        {"mechanism": "rl", "footpoint": "all"},
        {"mechanism": "rl", "sampler": "chain", "burn_in": 200},
        {"mechanism": "tangent-gaussian"},
        {"mechanism": "extrinsic-gaussian"},
        {"mechanism": "kng"},
        {"mechanism": "ewg", "footpoint": "adaptive"},
    ),
    "curved": (
        MAIN + 'manifold = "spd-affine-invariant"\n',
        {"mechanism": "ewg", "footpoint": "all"},
        {"mechanism": "rl"},
        {"mechanism": "kng"},
        {"mechanism": "ewg", "footpoint": "adaptive"},
    ),
    "sphere": (
        SPHERE,
        {"mechanism": "rl"},
        {"mechanism": "kng", "measure": "chord"},
        {"mechanism": "kng", "sampler": "chain", "burn_in": 200},
        {"mechanism": "euclidean-laplace"},
        {"mechanism": "projected-euclidean-laplace"},
    ),
    "persons": (
        PERSONS,
        {"mechanism": "ewg", "footpoint": "adaptive"},
        {"mechanism": "ewg", "records": "one image"},
        {"mechanism": "ewg", "records": "images in groups"},
    ),
}
"""Experiments: what they have in common, and their series."""

RELEASE = """
name = "golden"
population = "{population}"
dataset = "{dataset}"
labels = "public"
budget = {budget}
"""

CARD = """
kind = "folder"
path = "ward"
channels = 1
classes = ["well", "ill"]
"""

NIGHTS = 5
PER_NIGHT = 3
"""Images of each class that come every night: the second night opens the stream."""


def run_all(folder: Path) -> Digests:
    """Run everything in an empty folder and return the digests."""
    replay_noise()
    found = Digests({ARITHMETIC: arithmetic()})
    for name, (text, *series) in EXPERIMENTS.items():
        config = folder / f"{name}.toml"
        config.write_text(text + "".join(map(_series, range(len(series)), series)))
        found[f"experiment {name}"] = of_table(run_experiment(config, folder / name))
    documents = []
    ledger, out = folder / "ledger.sqlite", folder / "out"
    make_ledger(ledger, {"tiles": 9.0, "persons": 4.0, "stream": 30.0})

    def publish(part: str, config: Path, run_key: str) -> Path:
        document, table = release(config, run_key, ledger, out)
        found[part] = of_document(json.loads(document.read_bytes()))
        found[f"{part}, table"] = of_table(table)
        return document

    config = folder / "release.toml"
    for run_key, budget in (("monday", 1.0), ("friday", 3.0)):
        config.write_text(RELEASE.format(population="tiles", dataset="tiles", budget=budget))
        documents.append(publish(f"release of {run_key}", config, run_key))

    config = folder / "persons.toml"
    (folder / "card.toml").write_text(
        CARD + 'pattern = "{class}/{person}-*.png"\nunit = "person"\n'
    )
    write_images(folder / "ward", range(24))
    config.write_text(RELEASE.format(population="persons", dataset="card.toml", budget=2.0))
    publish("release persons", config, "monday")

    config = write_stream(folder)
    for night in range(1, NIGHTS + 1):
        add_night(folder, night)
        document = publish(f"night {night}", config, f"2026-03-{night:02d}")
    documents.append(document)

    found["compare"] = of_document(several("compare", *documents[:2]))
    found["combine"] = of_document(several("combine", *documents[:2]))
    for name, document in (("release", documents[0]), ("night", documents[2])):
        found[f"regions of a {name}"] = of_document(regions(document))
    found["tests and classes"] = of_document(tests_and_classes(documents[0]))
    for manifold in ("spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"):
        for plan in ("auto", "single"):
            found[f"private_mean {manifold} {plan}"] = of_document(mean_of_tiles(manifold, plan))
    return found


def write_stream(folder: Path) -> Path:
    """Write the config and the card of a stream, and return the config."""
    (folder / "nightly.toml").write_text(CARD.replace('"ward"', '"nightly"'))
    text = RELEASE.format(population="stream", dataset="nightly.toml", budget=20.0)
    stream = f"[stream]\nhorizon = 40\nopening = {20 * (PER_NIGHT + 1)}\n"
    config = folder / "stream.toml"
    config.write_text(f"{text}smallest_class = 1\n{stream}")
    return config


def add_night(folder: Path, night: int) -> None:
    """Add the images of a night, from 1 on, to those of the stream."""
    write_images(folder / "nightly", range(PER_NIGHT * (night - 1), PER_NIGHT * night))


def _series(number: int, keys: dict[str, Any]) -> str:
    """Return one series as TOML."""
    lines = (f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return "\n".join(["", "[[mechanisms]]", f'series = "{number}"', *lines, ""])


def write_images(folder: Path, numbers: range) -> None:
    """Write images of both classes, of persons who have one or two of them."""
    import numpy as np
    from PIL import Image

    for label, name in enumerate(("well", "ill")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            pixels = np.random.default_rng([label, number]).integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{name}{2 * number // 3}-{number}.png")


def replay_noise() -> None:
    """Have the lattice's noise, and the keys of ledgers, follow from what they are asked for."""
    import secrets

    import numpy as np
    from opendp import measurements

    hardened, asked = measurements.make_gaussian, Counter[bytes]()

    class ReplayedGaussian:
        """A measurement of OpenDP's that draws from a generator, and certifies as OpenDP does."""

        def __init__(self, *spaces: Any, scale: float) -> None:
            self.scale, self.map = scale, hardened(*spaces, scale=scale).map

        def __call__(self, values: list[float]) -> list[float]:
            seed = hashlib.sha256(repr((values, self.scale)).encode()).digest()
            asked[seed] += 1
            rng = np.random.default_rng([*seed, asked[seed]])
            return [value + self.scale * rng.standard_normal() for value in values]

    measurements.make_gaussian = ReplayedGaussian
    secrets.token_bytes = lambda size=32: bytes(range(size))


# digests


def arithmetic() -> dict[str, str]:
    """Return digests of what the libraries compute here: other processors may round otherwise."""
    import numpy as np
    from scipy import linalg, special

    grid = np.linspace(0.01, 0.99, 500)
    maps = (np.exp, np.log, np.sqrt, np.sin, np.arccos, np.arctanh, np.log1p, special.ndtri)
    matrix = np.random.default_rng(1).standard_normal((60, 15))
    square = matrix.T @ matrix
    scalars = [(math.exp(x), math.log(x), math.tanh(x), math.lgamma(x)) for x in grid]
    return {
        "functions": digest([work(grid) for work in maps]),
        "scalars": digest(scalars),
        "sums": digest([matrix.sum(axis=0), square, matrix @ square, np.linalg.norm(matrix)]),
        "linear algebra": digest([*np.linalg.eigh(square), linalg.cholesky(square)]),
    }


def of_table(path: Path) -> dict[str, str]:
    """Return the digest of each column of a Parquet file."""
    import pyarrow.parquet as pq

    table, found = pq.ParquetFile(path).read(), dict[str, str]()
    for name in set(table.column_names) - LEFT_OUT:
        values = table[name].to_pylist()
        if isinstance(values[0], str) and values[0].startswith("{"):  # JSON
            parts = of_document([json.loads(value) for value in values])
            found |= {f"{name}{path}": value for path, value in parts.items()}
        else:
            found[name] = digest(values)
    return found


def of_document(document: Any) -> dict[str, str]:
    """Return the digest of each leaf; those of records in a list are one column."""
    columns = defaultdict[str, list[Any]](list)
    for path, value in leaves(document, ""):
        columns[path].append(value)
    return {path: digest(values) for path, values in columns.items()}


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of what is neither a mapping nor a list of mappings."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in TEXTS:
                yield f"{path}.{key}".lstrip("."), numbers_of(item)
            elif key not in LEFT_OUT:
                yield from leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path, value


def numbers_of(text: Any) -> list[str]:
    """Return the numbers in texts, in order."""
    return re.findall(r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", json.dumps(text, ensure_ascii=False))


def digest(value: Any) -> str:
    """Return the SHA-256 of a value, every bit of its floats; 1 and 1.0 differ."""
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()


def plain(value: Any) -> Any:
    """Return lists, numbers and texts in place of arrays and tuples of them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value


# comparing


def differences(golden: Digests, found: Digests) -> tuple[list[str], list[str]]:
    """Return what was renamed, and what differs otherwise, a line each."""
    renamed, wrong = list[str](), list[str]()
    for part in golden.keys() | found.keys():
        if part not in golden or part not in found:
            wrong.append(f"{part}: {'new' if part in found else 'has gone'}")
            continue
        old, new = golden[part], found[part]
        gone = {name: old[name] for name in old if name not in new}
        come = {name: new[name] for name in new if name not in old}
        wrong += [
            f"{part}: {name} differs" for name in old if new.get(name, old[name]) != old[name]
        ]
        for name, value in gone.items():
            same = [other for other in come if come[other] == value]
            if not same:
                wrong.append(f"{part}: {name} has gone")
                continue
            renamed.append(f"{part}: {name} has gone, {same[0]} has the same digest")
            del come[same[0]]
        wrong += [f"{part}: {name} is new" for name in come]
    return sorted(renamed), sorted(wrong)


def names_alone(digests: Digests) -> Digests:
    """Return digests of nothing but names."""
    return {part: {name: digest(name) for name in names} for part, names in digests.items()}


def main(arguments: list[str] | None = None) -> int:
    """Run, compare, write what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.golden", description=__doc__)
    parser.add_argument("--rename", action="store_true", help="write new names of same digests")
    parser.add_argument("--write", action="store_true", help="write whatever is found")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = run_all(Path(folder).resolve())
    golden = json.loads(GOLDEN.read_text())
    if golden[ARITHMETIC] != found[ARITHMETIC] and not asked.write:
        print(OTHER_ROUNDING)
        golden, found = names_alone(golden), names_alone(found)
    renamed, wrong = differences(golden, found)
    for line in (*renamed, *wrong):
        print(line)
    if asked.write or (asked.rename and renamed and not wrong):
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        print(f"written: {GOLDEN}")
        return 0
    count = sum(map(len, found.values()))
    print(f"{count} digests: {len(renamed)} renamed, {len(wrong)} otherwise")
    return 1 if renamed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
