"""Verify a document of covdp: form, signature, what follows; the signature alone holds the rest."""
import hashlib, json, math, pathlib, re, sys
from typing import Any
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as Key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
FORMS: Any = {}  # place in a document → types, least and most, fields: `covdp passport` fills it
POWERS, GAUSS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"), np.polynomial.legendre.leggauss(400)
class UnverifiedError(Exception): """Fault of a document, in one line."""
def _need(holds: Any, fault: str) -> Any:
    if not holds: raise UnverifiedError(f"{fault}; ask who sent the file for the original")
def _near(stated: Any, follows: Any, name: str, up: float = 1e-10) -> None:
    a, b = np.asarray(stated, float), np.asarray(follows, float)
    size = 1e-290 + (np.abs(b) if b.ndim < 2 else np.abs(b).max(initial=0.0))  # its most
    fine = a.shape == b.shape and np.all((b - 1e-10 * size <= a) & (a <= b + up * size))
    fine or _need(0, f"{name} is not what follows from the rest, found {stated!r:.40}")
def _check_form(v: Any, at: str, rules: Any) -> None:
    kind, (kinds, low, high, keys) = type(v).__name__, rules.get(at, (["absent"], 0, 0, ()))
    size = len(v) if kind in ("str", "list") else low if kind in ("dict", "NoneType") else v
    fine = (kind in kinds and low <= size <= high) or f"={v}" in kinds  # which is slow of lists
    fine = fine and (kind != "str" or v.isprintable() or (high > 1000 and v.encode()))
    fine = fine and ("upper" not in kinds or math.isqrt(8 * size + 1) ** 2 == 8 * size + 1)
    inside = [*(v.items() if kind == "dict" else enumerate(v if kind == "list" else ()))]
    fine = fine and (kind == "dict" or len({len(x) for _, x in inside if isinstance(x, list)}) < 2)
    fine or _need(0, f"{at!r} must be {'/'.join(kinds)} ({low:g} to {high:g}), found {v!r:.40}")
    for x in keys: _need(kind != "dict" or x in v, f"{at!r} must have {x!r}")
    for x, y in inside:
        _check_form(y, f"{at}.{x if kind == 'dict' or f'{at}.{x}' in rules else '*'}", rules)
def _least(holds: Any) -> float:
    low, high = 0.0, next((2.0**i for i in range(1024) if holds(2.0**i)), math.inf)
    while low < (x := (low + high) / 2.0) < high: low, high = (low, x) if holds(x) else (x, high)
    return high
def _epsilon(power: int, x: float, delta: float) -> float:  # of x-GDP or x-zCDP, power 2 or 1
    goal, most = (g := math.log(delta) - 1e-11), math.exp(g) * math.sqrt(2.0 * math.pi)  # margin
    def reached(e: float) -> Any:  # δ(ε) = ∫ φ(a + t)·(1 − e^(−μt)) dt, a = ε/μ − μ/2
        t = max(0, -(a := e / x - x / 2) - 9) + (w := min(9, 4.5 - min(a, 0) / 2)) * (GAUSS[0] + 1)
        return w * GAUSS[1] @ (np.exp(-((a + t) ** 2) / 2.0) * -np.expm1(-x * t)) <= most
    if power == 2 or not x: return _least(reached) if x else 0.0
    k = _least(lambda k: x * k * k + math.log1p(k) >= -goal)  # of the best Rényi order 1 + k
    return max(0.0, x * (1.0 + k) - math.log1p(1.0 / k) - (math.log1p(k) + goal) / k)
def _matrix(c: Any, manifold: str) -> Any:  # of coordinates at the identity
    k, factor = (math.isqrt(8 * len(c) + 1) - 1) // 2, "cholesky" in manifold
    full, low = np.diag(np.exp(c[:k]) if factor else c[:k]), np.tri(k, k, -1)
    full[(low if factor else low.T) > 0] = np.divide(c[k:], 1.0 if factor else math.sqrt(2.0))
    values, vectors = np.linalg.eigh(full, "U")
    return full @ full.T if factor else (vectors * np.exp(values)) @ vectors.T
def _radius(row: Any, d: int, night: bool) -> float:  # of 95 % of its noise, of a night its error
    seen = row["certainty"] if night else row["observed"] or {"axes": np.eye(d), **row["costs"][-1]}
    one = (np.array(seen["sample"])[np.equal(*np.triu_indices(d))].sum() if night
        else np.square(seen["sigma"] * np.reshape(seen["axes"], (d, d))).sum()) / d
    h, g = np.array([(x, math.lgamma(x + 1.0)) for x in d / 2 + np.arange(9 * d + 400)]).T  # χ²
    return math.sqrt(one * _least(lambda x: np.exp(h * math.log(x / 2) - g - x / 2).sum() >= 0.95))
def _check_statement(d: Any, power: int, x: float, total: int) -> None:
    s, a, j, delta = d["settings"], d["account"], d.get("joint"), min(1e-5, 0.1 / max(total, 1))
    def group(g: float) -> list[float]:  # of g images: budget, success of the best test in per cent
        y = x * g ** (3 - power)
        share = math.tanh(_least(lambda e: e * math.tanh(e / 2) >= y**power / power) / 2)
        share = share if s["noise"] == "hardened" or power == 1 else math.erf(y / math.sqrt(8.0))
        return [y, math.ceil(500.0 * (1.0 + share) - 1e-7) / 10.0]
    secret, most, said = s["labels"] == "secret", s["images_per_person"], dict(d["statement"])
    told = [title in said for title in ("Charged to the account", "Not paid from a ledger")]
    paid = told == [bool(a), not a] and (a or not (j or d.get("signature")))
    _need(paid and (a or s)["definition"] == s["definition"], "account and statement differ")
    if a:
        full, spent, left, cost = (a[y] ** power for y in ("total", "spent", "left", "charged"))
        n, more, ulp = min(a["releases"], 2) or -1, a["releases_left"], 1e-14 * full
        _near([spent + left, n], [full, (spent >= cost) + (spent > cost)], "spent or releases")
        fine = more * cost - ulp <= full - spent < (more + 1 if more < 1e12 else 1e99) * cost + ulp
        _need(fine or ("night" in d and s["stream"]["follows"]), f"releases_left cannot be {more}")
        for y in ("total", "spent", "left"):
            _near(a[f"epsilon_{y}"], _epsilon(power, a[y], a["delta"]), f"epsilon_{y}")
    rows: Any = {"Guarantee": [x], "Implies": [max(_epsilon(power, x, delta), 1e-9), delta],
        "In plain words": group(1)[1:], "One more or one fewer": secret and group(math.sqrt(0.5)),
        f"{s['unit'].capitalize()}s of all classes together (exact)": secret and [total],
        "Several images of one person": most and [most, *group(most)],
        "Charged to the account": a and [a["charged"]],
        "Hospitals that show their noise": j and [j["colluders"], len(j["hospitals"])]}
    for title, numbers in filter(lambda row: row[1], rows.items()):
        text = re.sub("10(?=[⁻⁰¹²³⁴-⁹])", "1e", said.get(title, "")).replace("·1e", "e")
        found = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text.translate(POWERS))[: len(numbers)]
        _near([float(one) for one in found], numbers, f"{title!r} in the statement", 2e-5)
def _check(d: Any, sides: Any) -> dict[str, float]:  # radius by class
    s, night, n = d["settings"], "night" in d, "n_so_far" if "night" in d else "n"
    m, k, power = s["manifold"], sides["=" + s["descriptor"]], 1 + (s["definition"] == "gdp")
    secret, hard = s["labels"] == "secret", s["noise"] == "hardened"
    total = (s.get("total") or 0) if secret else sum(row[n] or 0 for row in d["classes"])
    j = d.get("joint") or {"hospital": "", "hospitals": [["", ""]], "colluders": 0, "noise": 1.0}
    lists = (d["statement"], j["hospitals"], s["classes"], [row[1:] for row in s["classes"]])
    _need(all(len({row[0] for row in x}) == len(x) for x in lists), "a name or label stands twice")
    _need(j["hospital"] in dict(j["hospitals"]), "its hospital is none of its hospitals")
    _near(j["noise"] ** -2, left := 1.0 - j["colluders"] / len(j["hospitals"]), "noise of a total")
    _check_statement(d, power, s["budget"] * (s["classes_per_person"] or 1) ** (1 / power), total)
    weights = np.cumprod(1.0 - 0.5 / np.arange(1, min(d.get("horizon", 1), 100_000)))
    _near(d.get("coefficient_norm", 1.0), np.linalg.norm([1.0, *weights]), "coefficient_norm")
    for row, its in zip(d["classes"], s["classes"], strict=True):
        name, costs, num = row["name"], row["costs"], row[n.replace("so_far", "tonight")]
        mean = (row["certainty"] if night else row) if row["coordinates"] else night and s
        set_up = [*its, m, s["budget"] if power == 2 else None, 2 * (night and secret)]
        known = [row["label"], name, None if secret else num, mean and mean["manifold"], row["mu"]]
        _need([*known, [num, row[n]].count(None)] == set_up, f"{name} is not as set up")
        rhos = [hard * x["sensitivity"] ** 2 / x["sigma"] ** 2 / 2.0 / left for x in costs]
        whole = hard * min(s["budget"] ** power / power, sum(rhos) if night else math.inf)
        seen = [x["rho"] or 0.0 for x in (*costs, row, row)]  # noise of floats certifies none
        _near(seen, [*rhos, sum(rhos), whole], f"rho of {name}, or of its steps,")
        for x in (row, *row["windows"]) if night else (row,):  # of nights perhaps no mean yet
            _near(x["point"] or np.eye(0), _matrix(x["coordinates"] or [], m), f"point of {name}")
            _need(len(x["point"] or range(k)) == k, f"{s['descriptor']} has {k} rows, {name} not")
        if o := not night and row["observed"]:
            num = min(max(num, round(row.get("n_sd", 0)), 1), total) if secret else num
            _near([o["n"], o["sigma"]], [num, costs[-1]["sigma"] / num**secret], f"{name}: σ")
    return {x["name"]: _radius(x, len(c), night) for x in d["classes"] if (c := x["coordinates"])}
@np.errstate(all="ignore")
def verify(content: bytes, key: bytes | None = None, rules: Any = FORMS) -> tuple[str, Any, str]:
    """Return the verdict, the size of each 95 % region and of what it is; raise for any fault."""
    try:
        d = json.loads(content.decode(), parse_constant=lambda x: _need(0, f"{x} is no number"),
        object_pairs_hook=lambda p: _need(len(dict(p)) == len(p), "a name stands twice") or dict(p))
        _check_form(d, next((x for x in ("joint", "night") if x in (d or ())), "release"), rules)
        its, j = dict(d.get("signature") or {}), d.get("joint")
        if its or _need(key is None, "it has no signature"):
            v, public, flat = its.pop("value"), its["public_key"], json.dumps(d, sort_keys=True)
            _need(content == flat.encode() and (public + v).islower(), "its bytes were not signed")
            owner = Key.from_public_bytes(x := bytes.fromhex(public))
            mark = "-".join(re.findall("....", hashlib.sha256(x).hexdigest()[:32]))
            pem = owner.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).split()
            fine = key is None or key.split() in (pem, [b"fingerprint", mark.encode(), *pem])
            _need(fine, f"the file of the key is not the key that signed, which is {mark}")
            _need(not j or dict(j["hospitals"])[j["hospital"]] == mark, "its hospital did not sign")
            flat = json.dumps({**d, "signature": its}, sort_keys=True)
            try: owner.verify(bytes.fromhex(v), f"covdp document {flat}".encode())
            except Exception: _need(0, "its signature is of other values")
        radii = _check(d, dict(zip(*rules["release.settings.descriptor"][::3], strict=True)))
    except (json.JSONDecodeError, RecursionError, UnicodeError): _need(0, "it is no JSON in UTF-8")
    except (ArithmeticError, LookupError, TypeError, ValueError): _need(0, "its parts do not fit")
    by = f"signed by the key {mark}" if key else "signer unknown" + ", as nobody signed" * (not its)
    by += "; not fit to leave: noise of floats" * (d["settings"]["noise"] == "float")
    by += "; not fit to leave: simulated" * bool(j and len({x[1] for x in j["hospitals"]}) < 2)
    law = f"95 % region of noise{' and clipping' if 'night' in d else ' alone'}, half-axis"
    return f"consistent; {by}" + "; paid by no account" * (not d["account"]), radii, law
if __name__ == "__main__":
    files, told, code = sys.argv[1:], "usage: python verify.py RELEASE.json [KEY]", 2
    try:
        if {"-h", "--help"} & {*files}: code = 0
        elif len(files) in (1, 2):
            told, radii, law = verify(*(pathlib.Path(one).read_bytes() for one in files))
            told, code = "\n".join((told, *(f"{n}: {law} {r:.6g}" for n, r in radii.items()))), 0
    except OSError as error: told = f"cannot read {error.filename} ({error.strerror}); give a file"
    except UnverifiedError as error: told, code = f"{files[0]}: {error}", 4
    (sys.stderr if code else sys.stdout).buffer.write(f"{told}\n".encode(errors="backslashreplace"))
    sys.exit(code)
