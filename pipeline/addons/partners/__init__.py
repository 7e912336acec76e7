"""Partners: releases of several, side by side, at no cost of privacy.

tests, combine, match, harmonise, classify, geodesics   what releases say together
coordinates      several released classes in one set of coordinates
foreign          documents that somebody sent, checked
several, local_images, maps      documents of several, images beside one, files of maps
several_page      their pages
export            documents as tables: CSV, XLSX, BIDS
estimators        descriptors and private means for scikit-learn
commands          compare, combine, match, harmonise, export
join              one release of several hospitals, of which nobody sees the sums
comparisons, hospitals, harmonising, classifiers        kinds of experiments
"""
