"""Solves a PDE on a shape to a tolerance: piecewise polynomials on cells, by conservative least squares.

`mesh` are the cells; `places` and `edges` where rows are, `sets` for which condition; `space` the rows;
`elimination` the linear algebra; `levels` chooses.
"""
