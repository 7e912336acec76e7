"""Add-ons: what some need, apart from the ground floor that everybody reads.

    papers     the published experiments and our claims: chains, other manifolds, verdicts
    hospital   DICOM, NIfTI, tables of files, masks, volumes
    nights     one release a night, for years
    partners   releases compared, combined, matched, harmonised, and classifiers of them
    audit      attacks on every mechanism

The ground floor imports none of them. It finds their members in `MEMBERS`, and imports one when it
is asked for (`covdp.registry`).
"""

from collections.abc import Mapping
from pathlib import Path

MEMBERS: Mapping[str, Mapping[str, str | Path]] = {
    "commands": {
        "reproduce": "covdp.addons.papers.commands:reproduce",
        "history": "covdp.addons.nights.commands:history",
        "compare": "covdp.addons.partners.commands:compare",
        "combine": "covdp.addons.partners.commands:combine",
        "match": "covdp.addons.partners.commands:match",
        "harmonise": "covdp.addons.partners.commands:harmonise",
        "export": "covdp.addons.partners.commands:export",
        "passport": "covdp.addons.partners.passport.commands:passport",
        "verify": "covdp.addons.partners.passport.commands:verify",
        "join": "covdp.addons.partners.join.commands:book",
        "audit": "covdp.addons.audit.commands:audit",
    },
    "dataset_kinds": {
        "table": "covdp.addons.hospital.table:TABLE",
        "dicom": "covdp.addons.hospital.dicom.files:DICOM",
        "nifti": "covdp.addons.hospital.nifti:NIFTI_KIND",
    },
    "documents": {
        "night": "covdp.addons.nights.schema:NightDocument",
        "joint": "covdp.addons.partners.join.schema:JointDocument",
    },
    "entries": {"certainty": "covdp.addons.nights.schema:StreamEntry"},
    "descriptors": {"vol7": "covdp.addons.hospital.volumes:VOL7"},
    "estimators": {
        "CovarianceDescriptors": "covdp.addons.partners.estimators:CovarianceDescriptors",
        "PrivateMean": "covdp.addons.partners.estimators:PrivateMean",
    },
    "events": {
        "stream": "covdp.addons.nights.account:add_stream",
        "night": "covdp.addons.nights.account:add_night",
        "word": "covdp.addons.partners.join.account:add_word",
        "withdrawal": "covdp.addons.partners.join.account:add_withdrawal",
    },
    "experiment_kinds": {
        "timing": "covdp.addons.papers.timing:TIMING",
        "nights": "covdp.addons.nights.experiment:STREAMING",
        "regions": "covdp.addons.papers.regions:COVERING",
        "peers": "covdp.addons.papers.peers:COMPETING",
        "tests": "covdp.addons.partners.comparisons:COMPARING",
        "matches": "covdp.addons.partners.comparisons:MATCHING",
        "hospitals": "covdp.addons.partners.hospitals:COMBINING",
        "joining": "covdp.addons.partners.joining:JOINING",
        "classifiers": "covdp.addons.partners.classifiers:CLASSIFYING",
        "harmonising": "covdp.addons.partners.harmonising:HARMONISING",
        "composition": "covdp.addons.papers.composition:COMPOSING",
    },
    "experiments": {
        path.stem: path for path in sorted(Path(__file__).parent.glob("papers/*.toml"))
    },
    "file_kinds": {
        "dicom": "covdp.addons.hospital.summaries:DICOM_FILES",
        "nifti": "covdp.addons.hospital.summaries:NIFTI_FILES",
    },
    "findings": {
        "claims": "covdp.addons.papers.verdicts:verdict",
        "composition": "covdp.addons.papers.verdicts:verdict",
    },
    "inference": {
        "Discriminants": "covdp.addons.partners.classify:Discriminants",
        "discriminants_of_means": "covdp.addons.partners.classify:discriminants_of_means",
        "lda": "covdp.addons.partners.classify:lda",
        "nearest_mean": "covdp.addons.partners.classify:nearest_mean",
        "combine": "covdp.addons.partners.combine:combine",
        "principal_geodesics": "covdp.addons.partners.geodesics:principal_geodesics",
        "Harmonisation": "covdp.addons.partners.harmonise:Harmonisation",
        "harmonise": "covdp.addons.partners.harmonise:harmonise",
        "FLAGGED": "covdp.addons.partners.match:FLAGGED",
        "Match": "covdp.addons.partners.match:Match",
        "match": "covdp.addons.partners.match:match",
        "match_refusal": "covdp.addons.partners.match:match_refusal",
        "ALPHA": "covdp.addons.nights.changes:ALPHA",
        "WindowTest": "covdp.addons.nights.changes:WindowTest",
        "bonferroni": "covdp.addons.nights.changes:bonferroni",
        "comparison_refusal": "covdp.addons.partners.tests:comparison_refusal",
        "holm": "covdp.addons.nights.changes:holm",
        "two_sample": "covdp.addons.partners.tests:two_sample",
        "window_test": "covdp.addons.nights.changes:window_test",
    },
    "manifolds": {
        "hyperbolic": "covdp.addons.papers.space_forms:Hyperbolic",
        "sphere": "covdp.addons.papers.space_forms:Sphere",
        "kendall": "covdp.addons.papers.kendall:Kendall",
    },
    "readers": {"maps": "covdp.addons.partners.maps:read_maps"},
    "mechanisms": {
        "extrinsic-gaussian": "covdp.addons.papers.baselines:EXTRINSIC_GAUSSIAN",
        "euclidean-laplace": "covdp.addons.papers.baselines:EUCLIDEAN_LAPLACE",
        "projected-euclidean-laplace": "covdp.addons.papers.baselines:PROJECTED_LAPLACE",
        "landmark-laplace": "covdp.addons.papers.baselines:LANDMARK_LAPLACE",
        "generalized-gaussian": "covdp.addons.papers.baselines:GENERALIZED_GAUSSIAN",
    },
    "samplers": {"chain": "covdp.addons.papers.chains:ChainSettings"},
    "table_drafts": {"table": "covdp.addons.hospital.table_draft:TABLE_DRAFTS"},
    "tables": {"stream": "covdp.addons.nights.release:StreamConfig"},
    "forecasts": {"stream": "covdp.addons.nights.planning:StreamForecast"},
    "entered": {"stream": "covdp.addons.nights.ledger:entered_streams"},
    "sites": {"index": "covdp.addons.papers.site:write_site"},
    "sources": {
        "ball": "covdp.addons.papers.simulated:BALL_SOURCE",
        "spectrum": "covdp.addons.papers.simulated:SPECTRUM_SOURCE",
        "wishart": "covdp.addons.papers.simulated:WISHART_SOURCE",
        "outlines": "covdp.addons.papers.simulated:OUTLINE_SOURCE",
        "persons": "covdp.addons.papers.simulated:PERSON_SOURCE",
    },
    "stream": {
        "coefficients": "covdp.addons.nights.stream:coefficients",
        "column_norm": "covdp.addons.nights.stream:column_norm",
    },
}
"""Registry → name of a member → ``module:attribute``, or the file that a member is."""
