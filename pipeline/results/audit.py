"""The table of an audit: what every mechanism leaks at least, beside what it may leak at most.

In: columns from `pipeline.audit`. Out: ``audit/audit.parquet``. No private data is involved: an
audit draws from pairs of made-up data sets.
"""

from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from pipeline.results.tables import Field, to_arrow, write_arrow

AUDIT_SCHEMA: Mapping[str, Field] = {
    "mechanism": Field("text", "", "mechanism that adds the noise"),
    "manifold": Field("text", "", "manifold of the statistic"),
    "dimension": Field("int32", "", "dimension d of the manifold"),
    "sampler": Field("text", "", "how the noise was drawn: exact, or a Markov chain"),
    "fault": Field("text", "", "what was broken on purpose, empty for the mechanism itself"),
    "definition": Field("text", "", "definition of privacy the claim belongs to"),
    "guarantee": Field("text", "", "the whole claim, in words"),
    "budget": Field("float64", "", "main parameter of the claim: ε, μ, ρ or θ"),
    "sensitivity": Field("float64", "distance", "Δ, how far apart the two statistics are"),
    "sigma": Field("float64", "distance", "scale σ of the noise, of transcripts in the last step"),
    "trials": Field("int64", "draws", "draws from the law on either of the two data sets"),
    "quantity": Field("text", "", "epsilon or mu, bounded by counts; squared mu, exact"),
    "delta": Field("float64", "", "δ at which ε is bounded; missing for μ", True),
    "lower": Field("float64", "", "the true value is at least this, all rows together"),
    "claim": Field("float64", "", "the true value is claimed to be at most this", True),
    "tightness": Field("float64", "", "lower / claim; a sound mechanism stays at or below 1", True),
    "verdict": Field("text", "", "ok or VIOLATED; caught or MISSED for a fault; label"),
    "seconds": Field("float64", "s", "wall-clock time of the case, shared by its rows"),
}
"""The columns of ``audit/audit.parquet``, in order."""


def write_audit(
    path: Path, columns: Mapping[str, ArrayLike], *, metadata: Mapping[str, str]
) -> Path:
    """Write the table of an audit with the columns of `AUDIT_SCHEMA`, whole or not at all.

    Raises
    ------
    ConfigError
        When the columns do not follow the schema.
    OutputError
        When the file cannot be written.
    """
    return write_arrow(path, to_arrow(columns, AUDIT_SCHEMA), metadata)
