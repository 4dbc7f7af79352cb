"""From functions to weights: rows, linear algebra, Gauss–Newton, derivatives, `solve`."""
