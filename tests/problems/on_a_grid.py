"""Darcy on a grid, stated three ways as pure functions of (ν, u), to check other statements by."""

from pdecl.family.arrays import namespace
from pdecl.problems.darcy.grid import face_coefficients, flux_balance


def conservative_residual(nu, u, average="arithmetic"):
    """−∇·(ν∇u) − 1 at the interior nodes, by fluxes through the faces (the five-point scheme)."""
    return flux_balance(face_coefficients(nu, average), u) * (u.shape[-1] - 1) ** 2 - 1


def wide_residual(nu, u):
    """−∇·(ν∇u) − 1 by central differences of ν times central differences, 2h apart each.

    This is the residual of physics-informed FNO code, kept to reproduce published figures. It does
    not see a checkerboard in u (nodes of odd and even number decouple) and it is not conservative
    where ν jumps; prefer `conservative_residual`.
    """
    width = 2 / (u.shape[-1] - 1)
    flux_x = nu[..., 1:-1, 2:-2] * (u[..., 2:, 2:-2] - u[..., :-2, 2:-2]) / width
    flux_y = nu[..., 2:-2, 1:-1] * (u[..., 2:-2, 2:] - u[..., 2:-2, :-2]) / width
    outflow_x = (flux_x[..., :-2, :] - flux_x[..., 2:, :]) / width
    outflow_y = (flux_y[..., :-2] - flux_y[..., 2:]) / width
    return outflow_x + outflow_y - 1


def energy(nu, u, average="arithmetic"):
    """∫ ½ν|∇u|² − u, discretised so that its gradient in u is h² times `conservative_residual`.

    Sum over faces of ½ν_face (difference of u)², minus h² times the sum of u over interior nodes;
    for u that is zero on the boundary.
    """
    xp = namespace(nu, u)
    face_x, face_y = face_coefficients(nu, average)
    slopes_x = u[..., 1:, 1:-1] - u[..., :-1, 1:-1]
    slopes_y = u[..., 1:-1, 1:] - u[..., 1:-1, :-1]
    stored = xp.sum(face_x * slopes_x**2, axis=(-2, -1)) + xp.sum(face_y * slopes_y**2, axis=(-2, -1))
    source = xp.sum(u[..., 1:-1, 1:-1], axis=(-2, -1)) / (u.shape[-1] - 1) ** 2
    return xp.asarray(stored / 2 - source)
