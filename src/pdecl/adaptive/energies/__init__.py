"""Energies, minimised to a tolerance on a box or a shape.

Smooth splines on a grid around the shape, those that meet it; integrals over what of each cell is
inside; Newton's method with a sparse Cholesky factorisation; cells halved where a richer space would
lower the energy most.
"""
