"""Functions on a grid as products: a few channels that a network makes of φ, times polynomials."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...state.rules import require_count
from ...support.mistakes import found
from ...support.summary import Summarised, Summary
from ...support.types import Phi
from .field import FieldFeatures
from .fno import FNO
from .layers import inner


class Products(Summarised, eqx.Module):
    """Each channel of an FNO times all polynomials of the coordinates up to a degree:
    `Products(FNO(problem, 9, slopes=True, key=key), degree=6)` has 9 × 28 functions.

    The channels need only know how a solution bends, which is local; where it is high and where low is
    for the layer to find. The first channel begins as 1 and the next two as the slopes of the field's
    potential, so that untrained functions can vary smoothly and bend at interfaces; training adds to
    these. The other channels begin as the network makes them.
    """

    channels: FNO
    degree: int = eqx.field(static=True)

    def __init__(self, channels: FNO, degree: int):
        require_count("degree", degree)
        if not isinstance(channels, FNO):
            raise TypeError(f"Products: `channels` must be an FNO; found {found(channels)}.")
        features, weight, bias = channels.features, channels.last.weight, channels.last.bias
        if not isinstance(features, FieldFeatures) or features.slope_scale is None:
            raise ValueError(
                "Products begins with the slopes of a field: make the FNO with slopes=True."
            )
        if len(weight) < 3:
            raise ValueError(f"Products needs an FNO of 3 channels or more; found {len(weight)}.")
        assert bias is not None
        quiet = (weight.at[:3].set(0), bias.at[:3].set(0))
        self.channels = eqx.tree_at(lambda fno: (fno.last.weight, fno.last.bias), channels, quiet)
        self.degree = degree

    def summary(self) -> Summary:
        each = self.count // self.channels.count
        rows = [
            ("polynomials", f"{each}, up to degree {self.degree}"),
            ("channels", inner(self.channels)),
        ]
        return Summary(f"Products: {self.count:,} functions on the grid of φ", rows)

    @property
    def count(self) -> int:
        return self.channels.count * (self.degree + 1) * (self.degree + 2) // 2

    def __call__(self, phi: Phi) -> Float[Array, "n m size"]:
        values, features = self.channels(phi), self.channels.features
        assert isinstance(features, FieldFeatures)
        values = values.at[..., 0].add(1).at[..., 1:3].add(features.slopes(phi).astype(values.dtype))
        along_x, along_y = (
            jnp.asarray(a, values.dtype) for a in factors(values.shape[:-1], self.degree)
        )
        products = values[..., :, None] * along_x[:, None, None] * along_y[None, :, None]
        return products.reshape(*values.shape[:-1], -1)


def factors(
    shape: tuple[int, ...], degree: int
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "m p"]]:
    """Chebyshev polynomials of x and of y whose products are all of a total degree up to `degree`."""
    x, y = (np.polynomial.chebyshev.chebvander(np.linspace(-1, 1, n), degree) for n in shape)
    powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
    first, second = np.transpose(powers)
    return x[:, first], y[:, second]


def channels_for(size: int, degree: int) -> int:
    """How many channels make `size` functions; a ValueError if none do."""
    each = (degree + 1) * (degree + 2) // 2
    if degree and (size % each or size < 3 * each):
        raise ValueError(
            f"with degree {degree} each of at least three channels makes {each} functions, so size must "
            f"be a multiple of {each} from {3 * each} on, such as "
            f"{max(3, round(size / each)) * each}; found {size}."
        )
    return size // each
