"""Functions: what a basis is, networks that predict one, functions on grids, wrappers."""
