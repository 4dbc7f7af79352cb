"""Reference solutions of Darcy's equation on the CPU, in float64.

All of them are conjugate gradients preconditioned by a fast Poisson solve. Sines diagonalise the
constant-coefficient operator, so the preconditioner is two discrete sine transforms; and since
min ν · (−Δ) ≤ −∇·(ν∇) ≤ max ν · (−Δ), the condition number is at most max ν / min ν on every
grid. For ν in {3, 12} that is 4, and each step cuts the error by three.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import isfinite

import numpy as np
import scipy.fft
from jaxtyping import Float64

from .grid import Average, face_coefficients, flux_balance

# Observed order in h of the Q1 error on pixelwise constant ν, over 841, 1681 and 3361 nodes a side:
# 1.55 and 1.54 for two φ. Corners of the pixels, where ∇u is singular, keep it below 2.
PIXEL_ORDER = 1.54

Batch = Float64[np.ndarray, "count n n"]
Operator = Callable[[np.ndarray], np.ndarray]


def finite_differences(nu: Batch, average: Average = "arithmetic", tolerance: float = 1e-10) -> Batch:
    """Solution of the five-point scheme on the grid of ν; `tolerance` bounds the relative error.

    With arithmetic averages on 421 × 421 nodes this is what published results are measured against.
    """
    # The transforms that take most of the time let other threads run.
    with ThreadPoolExecutor() as threads:
        solved = threads.map(lambda one: from_faces(face_coefficients(one, average), tolerance), nu)
        return np.stack(list(solved))


def from_faces(
    faces: tuple[np.ndarray, np.ndarray], tolerance: float = 1e-10
) -> Float64[np.ndarray, "n n"]:
    """Solution of the five-point scheme for one ν given on the faces (`face_coefficients`)."""
    nodes = faces[0].shape[0] + 1
    interior = _solve(
        lambda u: flux_balance(faces, np.pad(u, 1)),
        _poisson_symbol(nodes),
        np.full((nodes - 2, nodes - 2), (nodes - 1.0) ** -2),
        max(f.max() for f in faces) / min(f.min() for f in faces),
        tolerance,
    )
    return np.pad(interior, 1)


def pixel_elements(nu: Batch, refine: int, tolerance: float = 1e-7) -> Batch:
    """Q1 finite elements for the pixel law, `refine` of them to a node spacing; at the nodes.

    The pixel law: ν is constant on the square of side h around each node. With an even number of
    elements to h every element lies in one pixel, so nothing is averaged. The solution is computed
    on refine 2, 4, … in turn, each started from the one before.
    """
    if refine < 2 or refine & (refine - 1):
        raise ValueError(f"refine must be a power of two, at least 2, got {refine}")
    return np.stack([_pixel_levels(one, refine, tolerance)[-1] for one in nu])


def pixel_truth(nu: Batch, refine: int = 4, tolerance: float = 1e-7) -> Batch:
    """The solution of the pixel-wise coefficient itself: Q1 on refine/2 and on refine, extrapolated in
    h.

    At 421 nodes and refine 4 (841 and 1681 nodes a side) it is within 1e-5 (relative L2) of the
    extrapolation one level finer, against 1.6e-3 for `finite_differences`.
    """
    if refine < 4 or refine & (refine - 1):
        raise ValueError(f"refine must be a power of two, at least 4, got {refine}")
    gain = 1 / (2**PIXEL_ORDER - 1)

    def extrapolate(one: np.ndarray) -> np.ndarray:
        *_, coarse, fine = _pixel_levels(one, refine, tolerance)
        return fine + gain * (fine - coarse)

    with ThreadPoolExecutor() as threads:
        return np.stack(list(threads.map(extrapolate, nu)))


def _pixel_levels(nu: np.ndarray, finest: int, tolerance: float) -> list[np.ndarray]:
    """Q1 solutions at the nodes for refine = 2, 4, …, finest."""
    at_nodes, u, refine = [], None, 2
    while refine <= finest:
        elements = (nu.shape[-1] - 1) * refine
        # Element e has its centre at (e + 1/2)/refine node spacings; its pixel is the nearest node.
        pixel = (2 * np.arange(elements) + 1 + refine) // (2 * refine)
        coefficients = nu[np.ix_(pixel, pixel)]
        u = _solve(
            partial(_q1_stiffness, coefficients),
            _q1_symbol(elements + 1),
            np.full((elements - 1, elements - 1), elements**-2.0),
            nu.max() / nu.min(),
            tolerance,
            start=None if u is None else _prolong(u),
        )
        at_nodes.append(np.pad(u, 1)[::refine, ::refine])
        refine *= 2
    return at_nodes


def _q1_stiffness(coefficients: np.ndarray, interior: np.ndarray) -> np.ndarray:
    """Stiffness of bilinear square elements, one coefficient each, on the interior nodes.

    On an element the slope along x is a linear function of y with edge values d₀ and d₁, so its
    energy is ½ν(d₀² + d₀d₁ + d₁²)/3; the derivatives in d₀ and d₁ are the fluxes along the two
    edges.
    """
    u = np.pad(interior, 1)
    flux_x = _edge_fluxes(coefficients, u[1:] - u[:-1])[:, 1:-1]
    flux_y = _edge_fluxes(coefficients.T, (u[:, 1:] - u[:, :-1]).T).T[1:-1]
    return (flux_x[:-1] - flux_x[1:]) + (flux_y[:, :-1] - flux_y[:, 1:])


def _edge_fluxes(coefficients: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    fluxes = np.zeros_like(slopes)
    shared = slopes[:, :-1] + slopes[:, 1:]
    fluxes[:, :-1] += coefficients * (shared + slopes[:, :-1])
    fluxes[:, 1:] += coefficients * (shared + slopes[:, 1:])
    return fluxes / 6


def _prolong(u: np.ndarray) -> np.ndarray:
    """Bilinear interpolation to the grid of half the spacing (interior nodes, zero boundary)."""
    for _ in range(2):
        u = np.pad(u, ((1, 1), (0, 0)))
        finer = np.empty((2 * u.shape[0] - 1, u.shape[1]))
        finer[::2], finer[1::2] = u, (u[1:] + u[:-1]) / 2
        u = finer[1:-1].T
    return u


def _poisson_symbol(nodes: int) -> np.ndarray:
    """Eigenvalues of the five-point −h²Δ in the basis of discrete sines."""
    stretch = _sine_angles(nodes)[0]
    return stretch[:, None] + stretch


def _q1_symbol(nodes: int) -> np.ndarray:
    """Eigenvalues of the Q1 stiffness matrix of −Δ: stiffness along one axis, mass along another."""
    stretch, mass = _sine_angles(nodes)
    return stretch[:, None] * mass + mass[:, None] * stretch


def _sine_angles(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    cosines = np.cos(np.pi * np.arange(1, nodes - 1) / (nodes - 1))
    return 2 - 2 * cosines, (2 + cosines) / 3


def _solve(
    operator: Operator,
    symbol: np.ndarray,
    load: np.ndarray,
    contrast: float,
    tolerance: float,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Conjugate gradients; the error in the energy norm falls by `tolerance` relative to u = 0.

    The preconditioner runs in float32: it need not be exact, and its transforms are the whole cost.
    """
    most_steps = int(min(40 * contrast**0.5 + 20, 2000))
    inverse = (1 / symbol).astype(np.float32)

    def precondition(residual: np.ndarray) -> np.ndarray:
        # Scaled to order one, so that float32 neither overflows nor underflows.
        scale = np.abs(residual).max() or 1.0
        waves = scipy.fft.dstn((residual / scale).astype(np.float32), type=1, norm="ortho")
        waves *= inverse
        return scale * scipy.fft.dstn(waves, type=1, norm="ortho", overwrite_x=True).astype(float)

    size_of_load = np.vdot(load, precondition(load))
    u = np.zeros_like(load) if start is None else start
    residual = load.copy() if start is None else load - operator(u)
    direction = step = precondition(residual)
    size = np.vdot(residual, step)
    for _ in range(most_steps):
        # √(size / size_of_load) is the relative error up to the square root of the contrast.
        if size * contrast <= tolerance**2 * size_of_load:
            return u
        image = operator(direction)
        length = size / np.vdot(direction, image)
        u = u + length * direction
        residual = residual - length * image
        step = precondition(residual)
        size, before = np.vdot(residual, step), size
        direction = step + (size / before) * direction
    reached = (size / size_of_load) ** 0.5
    advice = f"ν has a contrast of {contrast:.1e}; loosen tolerance or lower the contrast"
    if not isfinite(reached):
        advice = "the values of ν overflowed; scale ν"
    raise ValueError(
        f"Darcy reference: relative residual {reached:.1e} after {most_steps} steps, "
        f"wanted {tolerance:.1e}; {advice}"
    )
