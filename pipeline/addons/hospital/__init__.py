"""Hospital: formats of hospitals as datasets.

dicom      files of DICOM: card, headers, pixels, masks
nifti      volumes and slices of NIfTI
table      images that a CSV or Parquet file lists
volumes    descriptors of volumes
"""
