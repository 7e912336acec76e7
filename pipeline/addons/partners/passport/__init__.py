"""The passport of a release: what those need who receive it and do not know covdp.

    croissant   record for data sets of machine learning, read by ``mlcroissant``
    dcat        record for a catalogue of health data, DCAT with HealthDCAT-AP
    registry    entry of the registry of deployments of differential privacy
    sheet       one printed page for whoever checks what leaves
    verify      the script that checks the document, which knows nothing of covdp
    rules       the schema of documents, as that script reads it

Nothing stands in them but what the document says and what follows from it. What nobody can know
from the document is left empty, and named.
"""
