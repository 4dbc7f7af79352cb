"""Functions: what a basis is, networks that propose one, functions on grids, wrappers."""
