# fmt: off
"""Verify a document of covdp: its form, its signature, and the numbers that follow from others.

``python verify.py RELEASE.json [KEY]``, KEY of ``covdp ledger key``: exit code 0, or 4 and a line.
"""
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

FORMS: Any = {}  # place in a document → types, least and most, fields: `covdp passport` fills it
POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
LEGENDRE, WEIGHTS = np.polynomial.legendre.leggauss(400)
def _need(holds: Any, fault: str) -> Any:
    if not holds:
        raise ValueError(fault)
def _near(stated: Any, follows: Any, name: str, up: float = 1e-10) -> None:
    a, b = np.asarray(stated, float), np.asarray(follows, float)
    size = 1e-290 + (np.abs(b) if b.ndim < 2 else np.abs(b).max(initial=0.0))  # its most
    fine = a.shape == b.shape and np.all((b - 1e-10 * size <= a) & (a <= b + up * size))
    _need(fine, f"{name} is not what follows from the rest")
def _check_form(value: Any, place: str, rules: Any) -> None:
    kind, (kinds, low, high, fields) = type(value).__name__, rules.get(place, ([], 0, 0, []))
    size = len(value) if kind in ("str", "list") else low if kind in ("dict", "NoneType") else value
    fine = f"={value}" in kinds or (kind in kinds and low <= size <= high)
    fine = fine and (kind != "str" or high > 1000 or value.isprintable())
    fine = fine and (kind != "dict" or set(fields) <= set(value))
    inside = list(value.items()) if kind == "dict" else []
    if kind == "list":
        fine = fine and len({len(row) for row in value if isinstance(row, list)}) < 2
        fine = fine and ("upper" not in kinds or math.isqrt(8 * size + 1) ** 2 == 8 * size + 1)
        inside = [(i if f"{place}.{i}" in rules else "*", one) for i, one in enumerate(value)]
    _need(fine or not kinds, f"{place} is not as the schema says, found {value!r:.40}")
    for name, one in inside:
        _check_form(one, f"{place}.{name}", rules)
def _check_signature(d: Any, its: Any, key: bytes | None) -> None:
    v, public = bytes.fromhex(its.pop("value")), bytes.fromhex(its["public_key"])
    owner = Ed25519PublicKey.from_public_bytes(public)
    _need(key is None or load_pem_public_key(key) == owner, "it is signed by another key")
    owner.verify(v, f"covdp document {json.dumps(d | {'signature': its}, sort_keys=True)}".encode())
def _least(holds: Any) -> float:
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2.0 * high
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
def _epsilon(power: int, x: float, delta: float) -> float:  # of x-GDP or x-zCDP, power 2 or 1
    goal = math.log(delta) - 1e-11  # covdp's margin
    def reached(e: float) -> Any:  # δ(ε) = ∫ φ(a + t)·(1 − e^(−μt)) dt, a = ε/μ − μ/2
        a = e / x - x / 2.0
        t = max(0.0, -a - 9.0) + (half := min(9.0, 4.5 - min(a, 0) / 2)) * (LEGENDRE + 1.0)
        area = half * WEIGHTS @ (np.exp(-((a + t) ** 2) / 2.0) * -np.expm1(-x * t))
        return area <= math.exp(goal) * math.sqrt(2.0 * math.pi)
    if power == 2 or not x:
        return _least(reached) if x else 0.0
    k = _least(lambda k: x * k * k + math.log1p(k) >= -goal)  # of the best Rényi order 1 + k
    return max(0.0, x * (1.0 + k) - math.log1p(1.0 / k) - (math.log1p(k) + goal) / k)
def _matrix(c: Any, manifold: str) -> Any:  # of coordinates at the identity
    k, factor = (math.isqrt(8 * len(c) + 1) - 1) // 2, "cholesky" in manifold
    full = np.diag(np.exp(c[:k]) if factor else c[:k])
    places = np.tril_indices(k, -1) if factor else np.triu_indices(k, 1)
    full[places] = np.divide(c[k:], 1.0 if factor else math.sqrt(2.0))
    values, vectors = np.linalg.eigh(full, "U")
    return full @ full.T if factor else (vectors * np.exp(values)) @ vectors.T
def _radius(row: Any) -> float:  # of 95 % of the noise; of a night, of all the error that it states
    d, sample = len(row["coordinates"]), (row.get("certainty") or {}).get("sample")
    seen = row.get("observed") or {"axes": np.eye(d), **(row["costs"] or [{"sigma": 0.0}])[-1]}
    trace = np.square(seen["sigma"] * np.array(seen["axes"])).sum()
    trace = np.array(sample)[np.equal(*np.triu_indices(d))].sum() if sample else trace
    def reached(x: float) -> bool:  # the law of χ² with d degrees of freedom, a series
        logs = (h * math.log(x / 2) - math.lgamma(h + 1) for h in d / 2 + np.arange(9 * d + 400))
        return sum(math.exp(log - x / 2) for log in logs) >= 0.95
    return math.sqrt(_least(reached) * trace / d)
def _check_statement(d: Any, power: int, x: float, total: int) -> None:
    s, said, delta = d["settings"], dict(d["statement"]), min(1e-5, 0.1 / max(total, 1))
    def group(g: float) -> list[float]:  # of g images: budget, success of the best test in per cent
        y = x * g ** (3 - power)
        share = math.tanh(_least(lambda e: e * math.tanh(e / 2) >= y**power / power) / 2)
        share = share if s["noise"] == "hardened" or power == 1 else math.erf(y / math.sqrt(8.0))
        return [y, math.ceil(500.0 * (1.0 + share) - 1e-7) / 10.0]
    rows = {"Guarantee": [x], "In plain words": group(1)[1:]}
    rows["Implies"] = [max(_epsilon(power, x, delta), 1e-9), delta]
    if s["labels"] == "secret":
        rows["One more or one fewer"] = group(math.sqrt(0.5))
        rows[f"{s['unit'].capitalize()}s of all classes together (exact)"] = [total]
    if most := s["images_per_person"]:
        rows["Several images of one person"] = [most, *group(most)]
    rows |= {"Charged to the account": [d["account"]["charged"]]} if d["account"] else {}
    for title, numbers in rows.items():
        text = re.sub("10(?=[⁻⁰¹²³⁴-⁹])", "1e", said.get(title, "")).replace("·1e", "e")
        found = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text.translate(POWERS))[: len(numbers)]
        _near([float(one) for one in found], numbers, f"{title!r} in the statement", 2e-5)
def _check(d: Any) -> dict[str, float]:  # radius by class
    s, a, n = d["settings"], d["account"], "n_so_far" if "night" in d else "n"
    secret, power = s["labels"] == "secret", {"gdp": 2, "zcdp": 1}.get(s["definition"], 0)
    _need(power, "its definition is neither gdp nor zcdp, and others cannot be verified")
    total = (s.get("total") or 0) if secret else sum(row[n] for row in d["classes"])
    _check_statement(d, power, s["budget"] * (s["classes_per_person"] or 1) ** (1 / power), total)
    if a:
        _near(a["spent"] ** power + a["left"] ** power, a["total"] ** power, "left")
        for part in ("total", "spent", "left"):
            _near(a[f"epsilon_{part}"], _epsilon(power, a[part], a["delta"]), f"epsilon_{part}")
    if "night" in d:
        weights = np.cumprod(1.0 - 0.5 / np.arange(1, min(d["horizon"], 100_000)))
        _near(d["coefficient_norm"], np.linalg.norm([1.0, *weights]), "coefficient_norm")
    j = d.get("joint") or {"hospitals": [1], "colluders": 0, "noise": 1.0}  # σ is of all, ρ of some
    _near(j["noise"] ** -2, left := 1.0 - j["colluders"] / len(j["hospitals"]), "noise of a total")
    for row, its in zip(d["classes"], s["classes"], strict=True):
        name, costs, size = row["name"], row["costs"], row[n.replace("so_far", "tonight")]
        known = [*its, s["manifold"], s["budget"] if power == 2 else None]
        its = [row["label"], name, None if secret else size, row.get("manifold", s["manifold"])]
        _need([*its, row["mu"]] == known, f"{name} has not class, manifold and mu of the settings")
        if s["noise"] == "hardened" and (costs or "night" not in d):
            rhos = [one["sensitivity"] ** 2 / one["sigma"] ** 2 / 2.0 / left for one in costs]
            _near([one["rho"] for one in costs], rhos, f"rho of a step of {name}")
            whole = min(s["budget"] ** power / power, sum(rhos) if "night" in d else math.inf)
            _near([row["rho"]] * 2, [sum(rhos), whole], f"rho of {name}")
        for part in () if row["coordinates"] is None else (row, *row.get("windows", [])):
            _near(part["point"], _matrix(part["coordinates"], s["manifold"]), f"point of {name}")
        if seen := row.get("observed"):
            many = min(max(size, round(row.get("n_sd", 0)), 1), total) if secret else size
            sigma = costs[-1]["sigma"] / (many if secret else 1)
            _near([seen["n"], seen["sigma"]], [many, sigma], f"n or sigma observed of {name}")
    return {row["name"]: _radius(row) for row in d["classes"] if row["coordinates"]}
@np.errstate(all="ignore")
def verify(content: bytes, key: bytes | None, rules: Any) -> tuple[str, dict[str, float]]:
    """Return the verdict and the 95 % radius of each class; raise for what does not hold."""
    d = json.loads(content, parse_constant=lambda word: _need(False, f"{word} is no number"),
        parse_float=lambda x: float(x) if abs(float(x)) < math.inf else _need(0, f"{x} is none"),
        object_pairs_hook=lambda p: dict(p) if len(dict(p)) == len(p) else _need(0, "twin fields"))
    _check_form(d, "night" if isinstance(d, dict) and "night" in d else "release", rules)
    _need(key is None or d.get("signature"), "it has no signature")
    if d.get("signature"):
        _check_signature(d, dict(d["signature"]), key)
    return f"consistent; {'signed by this ledger' if key else 'signer unknown'}", _check(d)
if __name__ == "__main__":
    try:
        files = [Path(name).read_bytes() for name in sys.argv[1:3]]
        verdict, radii = verify(files[0], files[1] if len(files) > 1 else None, FORMS)
        print(verdict, *(f"{n}: stated error {r:.6g} (95 %)" for n, r in radii.items()), sep="\n")
    except Exception as error:
        sys.stderr.write(f"{sys.argv[1]}: {error or 'its signature is of other bytes'}\n")
        sys.exit(4)
