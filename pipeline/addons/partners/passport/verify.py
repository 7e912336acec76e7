"""Verify a document of covdp: its form, its signature, and the numbers that follow from others."""
import hashlib
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as Key
from cryptography.hazmat.primitives.serialization import load_pem_public_key

FORMS: Any = {}  # place in a document → types, least and most, fields: `covdp passport` fills it
POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
LEGENDRE, WEIGHTS = np.polynomial.legendre.leggauss(400)
def _need(holds: Any, fault: str) -> Any:
    if not holds: raise ValueError(fault)
def _near(stated: Any, follows: Any, name: str, up: float = 1e-10) -> None:
    a, b = np.asarray(stated, float), np.asarray(follows, float)
    size = 1e-290 + (np.abs(b) if b.ndim < 2 else np.abs(b).max(initial=0.0))  # its most
    fine = a.shape == b.shape and np.all((b - 1e-10 * size <= a) & (a <= b + up * size))
    _need(fine, f"{name} is not what follows from the rest")
def _check_form(value: Any, place: str, rules: Any) -> None:
    kind, (kinds, low, high, fields) = type(value).__name__, rules.get(place, ([], 0, 0, []))
    size = len(value) if kind in ("str", "list") else low if kind in ("dict", "NoneType") else value
    fine = f"={value}" in kinds or (kind in kinds and low <= size <= high)
    fine = fine and (kind != "str" or value.isprintable() or (high > 1000 and value.encode()))
    fine = fine and (kind != "dict" or set(fields) <= set(value))
    inside = list(value.items()) if kind == "dict" else []
    if kind == "list":
        fine = fine and len({len(row) for row in value if isinstance(row, list)}) < 2
        fine = fine and ("upper" not in kinds or math.isqrt(8 * size + 1) ** 2 == 8 * size + 1)
        inside = [(i if f"{place}.{i}" in rules else "*", one) for i, one in enumerate(value)]
    _need(fine or not kinds, f"{place} is not as the schema says, found {value!r:.40}")
    for name, one in inside: _check_form(one, f"{place}.{name}", rules)
def _check_signature(d: Any, its: Any, key: bytes | None) -> str:  # `its` is a part of `d`
    v, j, public = its.pop("value"), d.get("joint"), bytes.fromhex(its["public_key"])
    owner, digest = Key.from_public_bytes(public), hashlib.sha256(public).hexdigest()[:32]
    mark, above = "-".join(re.findall("....", digest)), (key or b"").split(b"---")[0].split()
    try: known = key is None or load_pem_public_key(key) == owner
    except Exception: known = _need(0, "the file of the key is none that `covdp ledger key` prints")
    _need(known, "it is signed by another key")
    _need(above in ([], [b"fingerprint", mark.encode()]), f"the fingerprint of its key is {mark}")
    _need(not j or dict(j["hospitals"]).get(j["hospital"]) == mark, "no key of its hospital signed")
    owner.verify(bytes.fromhex(v), f"covdp document {json.dumps(d, sort_keys=True)}".encode())
    return mark
def _least(holds: Any) -> float:
    low, high = 0.0, next((2.0**i for i in range(1024) if holds(2.0**i)), math.inf)
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
def _epsilon(power: int, x: float, delta: float) -> float:  # of x-GDP or x-zCDP, power 2 or 1
    goal, most = (g := math.log(delta) - 1e-11), math.exp(g) * math.sqrt(2.0 * math.pi)  # margin
    def reached(e: float) -> Any:  # δ(ε) = ∫ φ(a + t)·(1 − e^(−μt)) dt, a = ε/μ − μ/2
        a = e / x - x / 2.0
        t = max(0.0, -a - 9.0) + (half := min(9.0, 4.5 - min(a, 0) / 2)) * (LEGENDRE + 1.0)
        return half * WEIGHTS @ (np.exp(-((a + t) ** 2) / 2.0) * -np.expm1(-x * t)) <= most
    if power == 2 or not x: return _least(reached) if x else 0.0
    k = _least(lambda k: x * k * k + math.log1p(k) >= -goal)  # of the best Rényi order 1 + k
    return max(0.0, x * (1.0 + k) - math.log1p(1.0 / k) - (math.log1p(k) + goal) / k)
def _matrix(c: Any, manifold: str) -> Any:  # of coordinates at the identity
    k, factor = (math.isqrt(8 * len(c) + 1) - 1) // 2, "cholesky" in manifold
    full = np.diag(np.exp(c[:k]) if factor else c[:k])
    places = np.tril_indices(k, -1) if factor else np.triu_indices(k, 1)
    full[places] = np.divide(c[k:], 1.0 if factor else math.sqrt(2.0))
    values, vectors = np.linalg.eigh(full, "U")
    return full @ full.T if factor else (vectors * np.exp(values)) @ vectors.T
def _radius(row: Any, d: int, night: bool) -> float:  # of 95 % of its noise, of a night its error
    seen = row["certainty"] if night else row["observed"] or {"axes": np.eye(d), **row["costs"][-1]}
    one = (np.array(seen["sample"])[np.equal(*np.triu_indices(d))].sum() if night
        else np.square(seen["sigma"] * np.array(seen["axes"])).sum()) / d
    h = d / 2 + np.arange(9 * d + 400)  # the law of χ² with d degrees of freedom is a series
    g = np.array([math.lgamma(one + 1.0) for one in h])
    return math.sqrt(one * _least(lambda x: np.exp(h * math.log(x / 2) - g - x / 2).sum() >= 0.95))
def _check_statement(d: Any, power: int, x: float, total: int) -> None:
    s, a, j, delta = d["settings"], d["account"], d.get("joint"), min(1e-5, 0.1 / max(total, 1))
    def group(g: float) -> list[float]:  # of g images: budget, success of the best test in per cent
        y = x * g ** (3 - power)
        share = math.tanh(_least(lambda e: e * math.tanh(e / 2) >= y**power / power) / 2)
        share = share if s["noise"] == "hardened" or power == 1 else math.erf(y / math.sqrt(8.0))
        return [y, math.ceil(500.0 * (1.0 + share) - 1e-7) / 10.0]
    secret, most, said = s["labels"] == "secret", s["images_per_person"], dict(d["statement"])
    rows: Any = {"Guarantee": [x], "In plain words": group(1)[1:],
        "Implies": [max(_epsilon(power, x, delta), 1e-9), delta],
        "One more or one fewer": secret and group(math.sqrt(0.5)),
        f"{s['unit'].capitalize()}s of all classes together (exact)": secret and [total],
        "Several images of one person": most and [most, *group(most)],
        "Charged to the account": a and [a["charged"]],
        "Hospitals that show their noise": j and [j["colluders"], len(j["hospitals"])]}
    for title, numbers in filter(lambda row: row[1], rows.items()):
        text = re.sub("10(?=[⁻⁰¹²³⁴-⁹])", "1e", said.get(title, "")).replace("·1e", "e")
        found = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text.translate(POWERS))[: len(numbers)]
        _near([float(one) for one in found], numbers, f"{title!r} in the statement", 2e-5)
def _check(d: Any) -> dict[str, float]:  # radius by class
    s, a, m, night = d["settings"], d["account"], d["settings"]["manifold"], "night" in d
    secret, power = s["labels"] == "secret", {"gdp": 2, "zcdp": 1}.get(s["definition"], 0)
    hard, n = {"hardened": 1.0, "float": 0.0}.get(s["noise"]), "n_so_far" if night else "n"
    _need(power and hard is not None, "its definition or its noise is none that can be verified")
    total = (s.get("total") or 0) if secret else sum(row[n] for row in d["classes"])
    j = d.get("joint") or {"hospital": "", "hospitals": [["", ""]], "colluders": 0, "noise": 1.0}
    lists = (d["statement"], j["hospitals"], s["classes"], [row[1:] for row in s["classes"]])
    _need(all(len({row[0] for row in x}) == len(x) for x in lists), "a name or label stands twice")
    _need(j["hospital"] in dict(j["hospitals"]), "its hospital is none of its hospitals")
    _near(j["noise"] ** -2, left := 1.0 - j["colluders"] / len(j["hospitals"]), "noise of a total")
    _check_statement(d, power, s["budget"] * (s["classes_per_person"] or 1) ** (1 / power), total)
    if a:
        _need(a["definition"] == s["definition"], "its account is of another definition")
        _near(a["spent"] ** power + a["left"] ** power, a["total"] ** power, "left")
        for part in ("total", "spent", "left"):
            _near(a[f"epsilon_{part}"], _epsilon(power, a[part], a["delta"]), f"epsilon_{part}")
    weights = np.cumprod(1.0 - 0.5 / np.arange(1, min(d.get("horizon", 1), 100_000)))
    _near(d.get("coefficient_norm", 1.0), np.linalg.norm([1.0, *weights]), "coefficient_norm")
    for row, its in zip(d["classes"], s["classes"], strict=True):
        name, costs, size = row["name"], row["costs"], row[n.replace("so_far", "tonight")]
        mean = (row["certainty"] if night else row) if row["coordinates"] else night and s
        known = [row["label"], name, None if secret else size, mean and mean["manifold"], row["mu"]]
        _need([*its, m, s["budget"] if power == 2 else None] == known, f"{name} is not as set up")
        rhos = [hard * x["sensitivity"] ** 2 / x["sigma"] ** 2 / 2.0 / left for x in costs]
        whole = hard * min(s["budget"] ** power / power, sum(rhos) if night else math.inf)
        _near([x["rho"] or 0.0 for x in (*costs, row, row)],  # noise of floats certifies none
            [*rhos, sum(rhos), whole], f"rho of {name}, or of its steps,")
        for x in (row, *row["windows"]) if night else (row,):  # of nights perhaps no mean yet
            _near(x["point"] or np.eye(0), _matrix(x["coordinates"] or [], m), f"point of {name}")
        if its := not night and row["observed"]:
            k = min(max(size, round(row.get("n_sd", 0)), 1), total) if secret else size
            _near([its["n"], its["sigma"]], [k, costs[-1]["sigma"] / k**secret], f"n, σ of {name}")
    return {x["name"]: _radius(x, len(c), night) for x in d["classes"] if (c := x["coordinates"])}
@np.errstate(all="ignore")
def verify(content: bytes, key: bytes | None = None, rules: Any = FORMS) -> tuple[str, Any, str]:
    """Return the verdict, the size of each 95 % region and of what it is; raise for any fault."""
    d = json.loads(content, parse_constant=lambda word: _need(False, f"{word} is no number"),
        object_pairs_hook=lambda p: dict(p) if len(dict(p)) == len(p) else _need(0, "twin fields"))
    place = next((x for x in ("joint", "night") if isinstance(d, dict) and x in d), "release")
    _check_form(d, place, rules)
    who, its = "consistent; signer unknown, as nobody signed", dict(d.get("signature") or {})
    if its or _need(key is None, "it has no signature"):
        mark = _check_signature({**d, "signature": its}, its, key)
        who = f"consistent; signed by the key {mark}" if key else "consistent; signer unknown"
    who += "; not fit to leave: noise of floats" if d["settings"]["noise"] == "float" else ""
    return who, _check(d), "noise and clipping" if "night" in d else "noise of the last step"
if __name__ == "__main__":
    name, use = "".join(sys.argv[1:2]), "usage: python verify.py RELEASE.json [KEY]\n"
    try:
        said, radii, law = verify(*(Path(one).read_bytes() for one in (name, *sys.argv[2:3])))
        lines = (said, *(f"{n}: {law}, 95 %: RMS half-axis {r:.6g}" for n, r in radii.items()), "")
        sys.stdout.buffer.write("\n".join(lines).encode())
    except Exception as error:
        sys.stderr.write(f"{name}: {str(error) or 'signature of other bytes'}\n" if name else use)
        sys.exit(2 if isinstance(error, OSError) else 4)  # 2: cannot be read, 4: does not hold
