"""Darcy's equation −∇·(ν∇u) = 1 on a grid, stated three ways, as pure functions of (ν, u).

ν and u are values at the n × n nodes (i h, j h), h = 1/(n−1), boundary included; leading axes are
batches. NumPy arrays stay NumPy, JAX arrays can be traced and differentiated.
"""

from types import ModuleType
from typing import Literal

from jaxtyping import Float

from ...family.arrays import AnyArray, namespace
from ...grid import subsample

Average = Literal["arithmetic", "harmonic"]
GridValues = Float[AnyArray, "*batch n n"]


def face_coefficients(nu: GridValues, average: Average = "arithmetic") -> tuple[AnyArray, AnyArray]:
    """ν on the faces that interior nodes see: (n−1) × (n−2) across x, (n−2) × (n−1) across y."""
    return (
        _mean(nu[..., 1:, 1:-1], nu[..., :-1, 1:-1], average),
        _mean(nu[..., 1:-1, 1:], nu[..., 1:-1, :-1], average),
    )


def upscaled_faces(nu: GridValues, nodes: int) -> tuple[AnyArray, AnyArray]:
    """Face coefficients of a coarser grid that remember the fine ν between its nodes.

    Across the flux the fine faces are in parallel (arithmetic mean over the width of the coarse
    face), along it the results are in series (harmonic mean). Far better than subsampling ν.
    """
    subsample(nu, nodes)
    xp = namespace(nu)
    across_x, across_y = _upscaled_x(xp, nu, nodes), _upscaled_x(xp, xp.swapaxes(nu, -1, -2), nodes)
    return across_x, xp.swapaxes(across_y, -1, -2)


def flux_balance(faces: tuple[AnyArray, AnyArray], u: GridValues) -> Float[AnyArray, "*batch n-2 n-2"]:
    """h² times −∇·(ν∇u) at the interior nodes: what flows out through a cell's four faces."""
    flux_x = faces[0] * (u[..., 1:, 1:-1] - u[..., :-1, 1:-1])
    flux_y = faces[1] * (u[..., 1:-1, 1:] - u[..., 1:-1, :-1])
    return (flux_x[..., :-1, :] - flux_x[..., 1:, :]) + (flux_y[..., :-1] - flux_y[..., 1:])


def conservative_residual(
    nu: GridValues, u: GridValues, average: Average = "arithmetic"
) -> Float[AnyArray, "*batch n-2 n-2"]:
    """−∇·(ν∇u) − 1 at the interior nodes, by fluxes through the faces (the five-point scheme)."""
    return flux_balance(face_coefficients(nu, average), u) * (u.shape[-1] - 1) ** 2 - 1


def wide_residual(nu: GridValues, u: GridValues) -> Float[AnyArray, "*batch n-4 n-4"]:
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


def energy(nu: GridValues, u: GridValues, average: Average = "arithmetic") -> Float[AnyArray, "*batch"]:
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


def _upscaled_x(xp: ModuleType, nu: AnyArray, nodes: int) -> AnyArray:
    stride = (nu.shape[-1] - 1) // (nodes - 1)
    faces = _mean(nu[..., 1:, :], nu[..., :-1, :], "harmonic")
    # Columns k·stride − stride/2 … k·stride + stride/2 belong to coarse node k; the outer ones of an
    # even stride are shared with the neighbours.
    half, shared = stride // 2, 0.5 if stride % 2 == 0 else 1.0
    parallel: AnyArray = 0.0
    for offset in range(-half, half + 1):
        weight = shared if abs(offset) == half and half else 1.0
        columns = faces[..., stride + offset : offset - stride or None : stride]
        parallel = parallel + weight / stride * columns
    series = (*nu.shape[:-2], nodes - 1, stride, nodes - 2)
    return stride / xp.sum(1 / parallel.reshape(series), axis=-2)


def _mean(one: AnyArray, other: AnyArray, average: Average) -> AnyArray:
    if average == "arithmetic":
        return (one + other) / 2
    if average == "harmonic":
        return 2 * one * other / (one + other)
    raise ValueError(f"average must be 'arithmetic' or 'harmonic', got {average!r}")
