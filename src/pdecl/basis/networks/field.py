"""What a network on a grid sees of a field φ."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from ...state.problem import Problem

_SAMPLES = 8  # fields that means and deviations are estimated from


class FieldFeatures(eqx.Module):
    """What an FNO sees of a field φ: its logarithm if the distribution's fields are positive, otherwise
    itself, with mean zero and deviation one; the coordinates from -1 to 1; a bump that is zero on the
    walls; and, with `slopes`, those of the field's potential.
    """

    mean: Float[Array, ""]
    scale: Float[Array, ""]
    slope_scale: Float[Array, ""] | None
    positive: bool = eqx.field(static=True)
    lengths: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, problem: Problem, slopes: bool = False):
        with jax.ensure_compile_time_eval():  # also where only the network's shapes are asked for
            drawn = problem.sample(jr.key(0), _SAMPLES)
        shape = getattr(drawn, "shape", None)
        if shape is None or len(shape) != 3 or len(problem.domain.names) != 2:
            raise ValueError(
                "an FNO needs a problem over two coordinates whose φ is one array (n, m); for another φ "
                f"pass `features`. Found {len(problem.domain.names)} coordinates and φ of "
                f"{jax.tree.map(lambda leaf: leaf.shape[1:], drawn)}."
            )
        with jax.ensure_compile_time_eval():
            self.positive = bool(jnp.all(drawn > 0))
        self.lengths = tuple(high - low for low, high in problem.domain.bounds)
        drawn = jnp.log(drawn) if self.positive else drawn
        self.mean, self.scale, self.slope_scale = jnp.mean(drawn), _inverse(jnp.std(drawn)), None
        if slopes:
            fields = (drawn - self.mean) * self.scale
            sampled = jax.vmap(lambda field: potential_slopes(field, self.lengths))(fields)
            self.slope_scale = _inverse(jnp.std(sampled))

    def __call__(self, phi: Float[Array, "n m"]) -> Float[Array, "n m k"]:
        field = self._field(phi)
        axes = [np.linspace(-1, 1, count) for count in phi.shape]
        x, y = np.meshgrid(*axes, indexing="ij")
        fixed = [jnp.asarray(a, field.dtype) for a in (x, y, (1 - x**2) * (1 - y**2))]
        seen = jnp.stack([field, *fixed], axis=-1)
        if self.slope_scale is None:
            return seen
        return jnp.concatenate([seen, self.slopes(phi).astype(seen.dtype)], axis=-1)

    def slopes(self, phi: Float[Array, "n m"]) -> Float[Array, "n m 2"]:
        """Those of the field's potential, with deviation one."""
        assert self.slope_scale is not None, "made without `slopes`"
        slopes = potential_slopes(self._field(phi).astype(float), self.lengths)
        return (jax.lax.stop_gradient(self.slope_scale) * slopes).astype(phi.dtype)

    def _field(self, phi: Float[Array, "n m"]) -> Float[Array, "n m"]:
        mean, scale = jax.lax.stop_gradient((self.mean, self.scale))
        return ((jnp.log(phi) if self.positive else phi) - mean) * scale


def potential_slopes(field: Float[Array, "n m"], lengths: tuple[float, ...]) -> Float[Array, "n m 2"]:
    """∂p/∂x and ∂p/∂y, where Δp is the field less its mean and p has no slope through the walls.

    They are continuous and bend where the field jumps, across the line of the jump: as a solution of
    −∇·(φ∇u) = f does, but without regard to f, and to first order in how much φ varies. Δ is the
    five-point one and the slopes are central differences, both diagonal in cosines.
    """
    waves, curvatures, slopes = zip(*map(_cosines, field.shape, lengths), strict=True)
    stretch = np.add.outer(*curvatures)
    stretch[0, 0] = np.inf  # the mean
    (cosine_x, sine_x), (cosine_y, sine_y) = waves
    within = lambda matrix: jnp.asarray(matrix, field.dtype)
    with jax.default_matmul_precision("highest"):
        amplitudes = within(_analysis(cosine_x)) @ field @ within(_analysis(cosine_y)).T
        amplitudes = amplitudes / within(stretch)
        along_x = within(sine_x * slopes[0]) @ amplitudes @ within(cosine_y).T
        along_y = within(cosine_x) @ amplitudes @ within(sine_y * slopes[1]).T
    return jnp.stack([along_x, along_y], axis=-1)


def _cosines(nodes: int, length: float) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """Cosines and sines of all waves at the nodes; −the second difference and the central difference of
    each cosine, as multiples of itself and of −the sine."""
    numbers, spacing = np.arange(nodes), length / (nodes - 1)
    angles = np.pi * numbers / (nodes - 1)
    phases = np.outer(numbers, numbers) % (2 * (nodes - 1)) * (np.pi / (nodes - 1))
    return (
        (np.cos(phases), np.sin(phases)),
        (2 - 2 * np.cos(angles)) / spacing**2,
        np.sin(angles) / spacing,
    )


def _analysis(cosine: np.ndarray) -> np.ndarray:
    """The matrix that finds the amplitudes of cosines: their inverse."""
    ends = np.full(len(cosine), 2.0)
    ends[[0, -1]] = 1
    return ends[:, None] * cosine * ends / (2 * (len(cosine) - 1))


def _inverse(deviation: Float[Array, ""]) -> Float[Array, ""]:
    return 1 / jnp.where(deviation > 0, deviation, 1.0)
