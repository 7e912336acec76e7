"""Tools of the repository that test nothing by themselves; each is a module to be run."""
