"""Burgers: the error in H⁻¹, which shocks damp, and through its dissipation in L2.

Let e = v − u and r = v_t + v v_x − ν v_xx. First e is made periodic and of mean zero. The jumps of v
and v_x at the seam are taken out by two polynomials, and m(t), the mean of v less that of u (which
never changes), by subtraction; both are known exactly and enter the bound as they are. What is left
has r − m' − m v_x for its residual. Let E be its antiderivative of mean zero and R that of the
residual. Then

    E_t + a E_x = ν E_xx + R + c(t),   a = (u + v)/2,     E_x = e,

    ½ d/dt ‖E‖² = ½ ∫ a_x E² − ν ‖e‖² + ∫ R E.                                                        (1)

Nothing was linearised. Where u steepens, a_x < 0 damps E. (In the identity for ‖e‖² itself the same
term has the other sign, and shocks make its bound grow like exp(u²/10ν).) Where a_x > 0 it is small:
u_x obeys a maximum principle, u_x ≤ W(t) = w/(1 + wt), w = max u₀'. So ½ a_x ≤ q := ¼(v_x + W), which
is known.

For p(t) > 0 with p' = −2Lp, add ‖e‖² to (p‖E‖²)' and complete the square:

    (p‖E‖²)' + ‖e‖² ≤ −2p ⟨ME, E⟩ + 2p ⟨R, E⟩ ≤ ½ p ⟨R, M⁻¹R⟩,     M = L − q − θν ∂xx,

if θν ≤ ν − 1/(2p) and M > 0: L exceeds the largest eigenvalue of θν ∂xx + q. Integrated over t,

    ∫‖e‖² dt ≤ p(0) ‖E(0)‖² + ½ ∫ p ⟨R, M⁻¹R⟩ dt,     p(1) = 1/(2ν(1 − θ)).                       (2)

M on all waves, from its matrix on waves 1 … K: with P the projection on them, Q that on the higher
ones and d ≤ M on the range of Q,

    M ≥ (L − P(θν ∂xx + q)P − (2/d) PqQqP)  ⊕  d/2,

and PqQqP = Pq²P − (PqP)² − (the part through the constant) is known without the high waves.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...error.record import ErrorBound, assemble
from ...error.sampling import CELL_COARSE, CELL_FINE, by_cell, lobatto, on_mesh
from ...family.arrays import irfft, rfft
from ...layer.lapack import eigh
from ...layer.solution import Solution, jit
from ...state.jet import Axes
from .interpolant import coefficients, initial

NORM = "L2 over x and t"
# How far L lies above the largest eigenvalue. Each margin gives a bound; the least is taken.
MARGINS = np.asarray([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])


def burgers_bound(
    solution: Solution,
    viscosity: float,
    cells: int = 24,
    points: int = 128,
    waves: int = 16,
    theta: float = 0.5,
) -> ErrorBound:
    """The bound for a batch: `points` along x, five times in each of `cells` cells, K = `waves`."""
    jets, seam = _sampled(solution, cells, points)
    halved = tuple(f[..., ::2] for f in jets)
    nu = jnp.asarray(viscosity)
    fine = _integrals(solution.phi, jets, seam, nu, True, waves, theta)
    coarse = _integrals(solution.phi, halved, seam, nu, False, waves, theta)
    missed = jnp.abs(fine["bound"] - coarse["bound"])
    parts = {name: fine[name] for name in ("initial", "mean", "seam", "residual")}
    return assemble(fine["bound"] + missed, fine["size"], parts | {"quadrature": missed}, NORM)


@jit
def _sampled(
    solution: Solution, cells: int, points: int
) -> tuple[tuple[Float[Array, "batch t n"], ...], Float[Array, "batch t"]]:
    """v, v_x, v_xx and v_t of every φ, made periodic."""
    times, x = lobatto(cells).nodes, np.linspace(0.0, 1.0, points + 1)
    order: list[Axes] = [(), (0,), (0, 0), (1,)]
    inside = on_mesh(solution, (x, times), set(order))
    ends = on_mesh(solution, (x[[0, -1]], times), {(0, 1)})[0, 1]
    jets = tuple(jnp.swapaxes(inside[axes], 1, 2) for axes in order)
    return jax.vmap(lambda jets, jump_xt: _periodic(jets, jump_xt, x))(jets, ends[:, 1] - ends[:, 0])


@eqx.filter_jit
def _integrals(
    u0: Float[Array, "batch sensors"],
    jets: tuple[Float[Array, "batch t n"], ...],
    seam: Float[Array, "batch t"],
    viscosity: Float[Array, ""],
    fine: bool,
    waves: int,
    theta: float,
) -> dict[str, Float[Array, " batch"]]:
    times = lobatto((seam.shape[-1] - 1) // 4).nodes
    cell = CELL_FINE if fine else CELL_COARSE
    one = lambda u0, jets, seam: _integrate(u0, jets, seam, times, viscosity, cell, waves, theta)
    return jax.vmap(one)(u0, jets, seam)


def _periodic(
    jets: tuple[Array, ...], jump_xt: Float[Array, " t"], x: np.ndarray
) -> tuple[tuple[Array, ...], Float[Array, " t"]]:
    """v, v_x, v_xx and v_t without the jumps of v and v_x at the seam, at all x but the last; and the
    square of the L2 norm of what was taken out, at each time."""
    line, parabola = x - 1 / 2, (x**2 - x + 1 / 6) / 2  # jumps of the value, and of the slope, of one
    v, v_x, v_xx, v_t = jets
    jump, jump_x, jump_t = (f[:, -1:] - f[:, :1] for f in (v, v_x, v_t))
    v = v - jump * line - jump_x * parabola
    v_x = v_x - jump - jump_x * line
    v_xx = v_xx - jump_x
    v_t = v_t - jump_t * line - jump_xt[:, None] * parabola
    # What still jumps (v_xx) counts with the mean of both sides, as in the trapezoidal rule.
    close = lambda f: f[:, :-1].at[:, 0].set((f[:, 0] + f[:, -1]) / 2)
    closed = tuple(close(f) for f in (v, v_x, v_xx, v_t))
    return closed, (jump**2 / 12 + jump_x**2 / 720)[:, 0]


def _integrate(
    u0: Float[Array, " sensors"],
    jets: tuple[Array, ...],
    seam: Float[Array, " t"],
    times: np.ndarray,
    viscosity: Float[Array, ""],
    cell: np.ndarray,
    waves: int,
    theta: float,
) -> dict[str, Float[Array, ""]]:
    """The right-hand side of (2) and what else the bound is made of."""
    v, v_x, v_xx, v_t = jets
    cells, x = (len(times) - 1) // 4, np.arange(v.shape[1]) / v.shape[1]
    integral = lambda f: jnp.sum(by_cell(f) @ cell) / cells
    mean = v.mean(axis=1) - coefficients(u0)[0].real
    residual = _antiderivative(v_t + (v - mean[:, None]) * v_x - viscosity * v_xx)
    start = jnp.sum(_antiderivative(v[0] - initial(u0, jnp.asarray(x))) ** 2)

    q = (v_x + _steepest(u0, times)[:, None]) / 4
    values, vectors, d = _linearised(q, theta * viscosity, waves)
    low, high = residual[:, : 2 * waves], residual[:, 2 * waves :]
    shares = jnp.einsum("tij,ti->tj", vectors, low) ** 2
    tail = jnp.sum(high**2, axis=1) * 2 / d
    ceiling = by_cell(jnp.maximum(values[:, -1], q.max(axis=1) - d)).max(axis=1)

    def with_margin(margin: Float[Array, ""]) -> tuple[Array, Array]:
        level = jnp.maximum(ceiling, 0.0) + margin  # L, constant on a cell
        growth = jnp.append(jnp.cumsum(level[::-1])[::-1], 0.0) * 2 / cells
        left = np.arange(1, cells + 1)[:, None] / cells - by_cell(jnp.asarray(times))
        p = jnp.exp(growth[1:, None] + 2 * level[:, None] * left) / (2 * viscosity * (1 - theta))
        gap = level[:, None, None] - by_cell(values.T).transpose(1, 2, 0)
        forced = jnp.sum(by_cell(shares.T).transpose(1, 2, 0) / gap, axis=-1) + by_cell(tail)
        return p[0, 0] * start, jnp.sum((p * forced / 2) @ cell) / cells

    started, forced = jax.vmap(with_margin)(jnp.asarray(MARGINS))
    best = jnp.argmin(started + forced)
    squares = {"initial": started[best], "residual": forced[best], "mean": integral(mean**2)}
    parts = {name: jnp.sqrt(square) for name, square in squares.items()}
    parts["seam"] = jnp.sqrt(integral(seam))
    parts["bound"] = parts["seam"] + jnp.sqrt(sum(squares.values()))
    return parts | {"size": jnp.sqrt(integral(jnp.mean(v**2, axis=1)))}


def _linearised(
    q: Float[Array, "t n"], viscosity: Float[Array, ""], waves: int
) -> tuple[Float[Array, "t k"], Float[Array, "t k k"], Float[Array, ""]]:
    """Eigenvalues and vectors of P(viscosity ∂xx + q)P + (2/d) PqQqP at each time, and d."""
    x, frequencies = np.arange(q.shape[1]) / q.shape[1], 2 * np.pi * np.arange(1, waves + 2)
    angles = np.outer(x, frequencies[:-1])
    basis = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(len(x), -1)
    d = viscosity * frequencies[-1] ** 2 / 2
    product = lambda f: jnp.einsum("xi,tx,xj->tij", basis, f / len(x), basis, optimize="optimal")
    inside, through = product(q), q @ basis / len(x)
    above = product(q**2) - inside @ inside - through[:, :, None] * through[:, None, :]
    diffusion = -viscosity * np.diag(np.repeat(frequencies[:-1], 2) ** 2)
    values, vectors = eigh(inside + diffusion + (2 / d) * above)
    return values, vectors, d


def _antiderivative(f: Float[Array, "*t n"]) -> Float[Array, "*t k"]:
    """Coefficients of √2 cos 2πx, √2 sin 2πx, √2 cos 4πx, … of the antiderivative of f less its mean."""
    c = rfft(f)[..., 1:] / f.shape[-1]
    c = np.sqrt(2) * c / (2j * np.pi * np.arange(1, c.shape[-1] + 1))
    return jnp.stack([c.real, -c.imag], axis=-1).reshape(*f.shape[:-1], -1)


def _steepest(u0: Float[Array, " sensors"], times: np.ndarray, points: int = 2048) -> Float[Array, " t"]:
    """W(t) ≥ max u_x. The maximum w of the slope of u₀ is taken at points, with an allowance of h²/8
    times a bound of its second derivative for what lies between them."""
    c = coefficients(u0)
    frequencies = 2 * np.pi * np.arange(c.shape[-1])
    slopes = irfft(1j * frequencies * c, n=points) * points
    bend = jnp.sum(2 * jnp.abs(c) * frequencies**3) / (8 * points**2)
    steepest = jnp.maximum(slopes.max(), 0.0) + bend
    return steepest / (1 + steepest * times)
