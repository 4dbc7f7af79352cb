"""What the examples of the gallery share: errors, pictures of two coordinates, and a reference in waves."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np


def relative_error(found: Any, exact: Any) -> float:
    """‖found − exact‖₂ / ‖exact‖₂."""
    return float(np.linalg.norm(np.asarray(found) - exact) / np.linalg.norm(exact))


def maps(box: Any, fields: dict[str, Any], across: str, up: str, n: int) -> None:
    """A row of maps of values on `box.mesh(n, n)`: `across` is drawn along the abscissa, `up` along the ordinate."""
    points = np.asarray(box.mesh(n, n))
    x, y = (points[:, box.axis(name)].reshape(n, n) for name in (across, up))
    figure, row = plt.subplots(
        1, len(fields), figsize=(4.4 * len(fields), 3.4), squeeze=False, layout="constrained"
    )
    for axes, (title, values) in zip(row[0], fields.items(), strict=True):
        values = np.asarray(values).reshape(n, n)
        bound = np.abs(values).max()
        signed = min(-values.min(), values.max()) > 0.01 * bound
        limits = {"vmin": -bound, "vmax": bound, "cmap": "RdBu_r"} if signed else {"cmap": "viridis"}
        image = axes.pcolormesh(x, y, values, shading="gouraud", **limits)
        figure.colorbar(image, ax=axes)
        axes.set(title=title, xlabel=across, ylabel=up)


def waves(linear: Any, nonlinear: Any, start: Any, length: float, times: Any, steps: int) -> np.ndarray:
    """u at `times` (rows) on the nodes of `start`, for û_t = linear(k) û + nonlinear(k, u), periodic: ETDRK4.

    Exponential time differencing of fourth order (Kassam and Trefethen, 2005), with the products of functions
    dealiased: two thirds of the waves. `nonlinear(k, u)` is in waves, `steps` are between two times.
    """
    n = len(start)
    k = 2 * np.pi / length * np.fft.rfftfreq(n, 1 / n)
    h = (times[1] - times[0]) / steps
    circle = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)
    step = h * linear(k)
    z = step[:, None] + circle
    mean = lambda values: h * values.mean(axis=1)
    mean = mean if np.iscomplexobj(step) else (lambda values: h * values.mean(axis=1).real)
    half = mean((np.exp(z / 2) - 1) / z)
    one = mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3)
    two = mean((2 + z + np.exp(z) * (z - 2)) / z**3)
    three = mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3)
    keep = np.arange(len(k)) < n // 3
    bend = lambda v: keep * nonlinear(k, np.fft.irfft(v, n))
    v, rows = np.fft.rfft(start), [np.asarray(start)]
    full, middle = np.exp(step), np.exp(step / 2)
    for _ in times[1:]:
        for _ in range(steps):
            first = bend(v)
            a = middle * v + half * first
            second = bend(a)
            third = bend(middle * v + half * second)
            last = bend(middle * a + half * (2 * third - first))
            v = full * v + one * first + 2 * two * (second + third) + three * last
        rows.append(np.fft.irfft(v, n))
    return np.stack(rows)
