"""One-line breaks of the release path, each of which a test must notice: `make mutants`."""
