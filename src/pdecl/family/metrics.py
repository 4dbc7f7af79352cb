"""The metrics of every table and figure, defined once.

Both are taken on a family's standard grid: `Family.coordinates`.
"""

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Float64


@dataclass(frozen=True)
class ErrorSummary:
    """Mean, standard deviation (of the φ at hand, not n − 1) and maximum of one number per φ."""

    mean: float
    std: float
    max: float
    count: int

    def __str__(self) -> str:
        mean, std, largest = (f"{100 * value:.3g}%" for value in (self.mean, self.std, self.max))
        return f"{mean} ± {std} (max {largest}, {self.count} φ)"

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


def relative_l2(
    u: Float[np.ndarray, "count ..."], reference: Float[np.ndarray, "count ..."]
) -> Float64[np.ndarray, " count"]:
    """‖u − reference‖₂ / ‖reference‖₂ for each φ; ‖·‖₂² is the sum of squares over all nodes."""
    u, reference = _finite("u", u), _finite("reference", reference)
    if u.shape != reference.shape:
        raise ValueError(
            f"u and reference must be on the same grid, got shapes {u.shape} and {reference.shape}"
        )
    norms = np.linalg.norm(reference, axis=1)
    if not norms.all():
        raise ValueError(
            f"reference number {int(np.argmin(norms))} is zero everywhere; no relative error exists"
        )
    return np.asarray(np.linalg.norm(u - reference, axis=1) / norms)


def relative_error(
    u: Float[np.ndarray, "count ..."], reference: Float[np.ndarray, "count ..."]
) -> ErrorSummary:
    """`relative_l2` over the test φ: mean, standard deviation and maximum."""
    return summarise(relative_l2(u, reference))


def summarise(values: Float[np.ndarray, " count"]) -> ErrorSummary:
    """Mean, standard deviation and maximum of one number per φ."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"values must hold one number for each φ, got shape {values.shape}")
    return ErrorSummary(float(values.mean()), float(values.std()), float(values.max()), values.size)


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    """As float64 with one row for each φ; a NaN must not hide in a mean."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{name} must have a first axis over φ and a grid, got shape {array.shape}")
    rows = array.reshape(len(array), -1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise ValueError(
            f"{name} has NaN or infinite values for {bad.size} of {len(array)} φ, first number {bad[0]}"
        )
    return rows
