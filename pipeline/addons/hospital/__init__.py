"""Hospital: formats of hospitals as datasets.

dicom         files of DICOM: card, headers, pixels, masks
nifti         volumes and slices of NIfTI
frames        which frames of a file are read
table         images that a CSV or Parquet file lists
volumes       descriptors of volumes
summaries     what headers and pixels say, for drafts and looks at files
table_draft   drafts of cards for tables
"""
