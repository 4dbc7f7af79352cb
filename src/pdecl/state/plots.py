"""Solutions and problems to look at: pictures, VTU files for ParaView, xarray data sets.

Pictures are of the bounding box, clipped where the signed distance is zero, so edges are smooth.
Matplotlib, meshio and xarray are imported when they are used.
"""

import base64
import io
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..support.summary import Summarised
from .condition import asks_for, describe, local, located
from .domain import Box, Region
from .points import Points
from .rules import Uniform, tensor
from .shapes.domain import Domain, ShapeRegion
from .shapes.level import facets_of, onto_level, simplices_of
from .shapes.moving import MovingDomain

_ASIDE = 120  # points along each side of a slice
_TIMES = 4
_CUBES = 40  # along the longest side, for a surface


class Shown(Summarised):
    """What a `Solution` and an `Adaptive` can be looked at by."""

    problem: Any
    phi: Any

    def d(self, *coordinates: str) -> Any:
        """A derivative as a function of points."""
        raise NotImplementedError

    def plot(
        self,
        ax: Any = None,
        *,
        unknown: str | None = None,
        at: Mapping[str, float] | None = None,
        level: float | None = None,
    ) -> Any:
        """A picture: a line, a map on the true shape, a row of times, slices through the middle, or the
        surface in space where an unknown has a value.

        Arguments:

        - `ax`: Matplotlib axes to draw in, as many as there are panels; left out, a figure is made.
        - `unknown`: one of several; left out, all, a row each.
        - `at`: coordinates that are held at a value, `at={"t": 0.5, "z": 0.1}`.
        - `level`: draws the surface where the unknown has this value, in three coordinates; axes given
          for it are of `projection="3d"`.

        Returns the axes, an array with a row for each unknown.
        """
        _require_one(self)
        names = self.problem.unknowns if unknown is None else (unknown,)
        if unknown is not None and unknown not in self.problem.unknowns:
            known = ", ".join(self.problem.unknowns)
            raise ValueError(f"plot: there is no unknown {unknown!r}; there are {known}.")
        if level is not None:
            return _surfaces(self, ax, names, dict(at or {}), float(level))
        panels = _panels(_domain(self), dict(at or {}))
        axes = _axes(ax, len(names), len(panels))
        for row, name in zip(axes, names, strict=True):
            drawn = [_draw(one, self, name, panel) for one, panel in zip(row, panels, strict=True)]
            limits = [one.get_clim() for one in drawn if one is not None]
            for one in drawn:
                if one is not None:  # one scale of colours
                    one.set_clim(min(a for a, _ in limits), max(b for _, b in limits))
        return axes

    def to_xarray(self, *counts: int) -> Any:
        """An `xarray.Dataset` on an even grid of the bounding box (51 points a side, or `counts`), NaN
        outside of the shape."""
        _require_one(self)
        import xarray as xr

        domain = self.problem.domain
        counts = counts or (51,)
        if len(counts) not in (1, len(domain.names)):
            raise ValueError(f"to_xarray: {len(counts)} counts for {len(domain.names)} coordinates.")
        several = counts * len(domain.names) if len(counts) == 1 else counts
        lines = [np.linspace(a, b, n) for (a, b), n in zip(domain.bounds, several, strict=True)]
        fields = _fields(self, tensor(lines, len(lines)))
        shaped = {u: (domain.names, values.reshape(tuple(several))) for u, values in fields.items()}
        return xr.Dataset(shaped, dict(zip(domain.names, lines, strict=True)))

    def to_vtu(self, path: Any, cells: int | None = None, at: Mapping[str, float] | None = None) -> None:
        """Writes a mesh of the shape with all unknowns, their first derivatives and the residual of each
        condition that holds inside, for ParaView.

        Arguments:

        - `cells`: along the longest side (100 in the plane, 32 in space).
        - `at`: coordinates that are held; time is at its end if it is not among them.
        """
        _require_one(self)
        try:
            import meshio
        except ImportError as error:
            raise ImportError("to_vtu: meshio is missing: pip install 'pdecl[shapes]'.") from error

        domain = _domain(self)
        space, fixed = _space(domain), dict(at or {})
        for name in fixed:
            domain.axis(name)
        shown = [axis for axis in space if domain.names[axis] not in fixed]
        if not 1 < len(shown) <= 3:
            raise ValueError(
                f"to_vtu: a mesh has two or three coordinates; of {', '.join(domain.names)} hold others "
                "by at=."
            )
        coords, simplices = _mesh(domain, shown, fixed, cells or {2: 100, 3: 32}[len(shown)])
        data = _fields(self, coords)
        for name in [domain.names[axis] for axis in range(len(domain.names))]:
            data |= {f"{u}_{name}": values for u, values in _fields(self, coords, name).items()}
        data |= _residuals(self, coords)
        padded = np.zeros((len(coords), 3))
        padded[:, : len(shown)] = coords[:, shown]
        kind = "triangle" if len(shown) == 2 else "tetra"
        meshio.Mesh(padded, [(kind, simplices)], point_data=data).write(path, file_format="vtu")

    def _repr_html_(self) -> str:
        text = super()._repr_html_()
        try:
            from matplotlib.figure import Figure  # no window, and nothing to close

            rows, columns = len(self.problem.unknowns), len(_panels(self.problem.domain, {}))
            figure, file = Figure(_inches(rows, columns), layout="constrained"), io.BytesIO()
            self.plot(figure.subplots(rows, columns, squeeze=False))
            figure.savefig(file, format="png", dpi=70, bbox_inches="tight")
        except Exception:  # no picture: a batch, too many coordinates, values not known yet
            return text
        return f"{text}<img src='data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}'/>"


def plot_problem(problem: Any, ax: Any = None, size: int = 200) -> Any:
    """The domain, the named parts of its boundary, the points that conditions hold at for a basis of
    `size` functions, and normals. Takes Matplotlib axes, and returns them."""
    domain = problem.domain
    space = _space(domain)
    if len(space) > 3:
        raise ValueError(f"plot: {len(space)} coordinates of space cannot be drawn.")
    solid = len(space) == 3
    if ax is None:
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=(7, 5), layout="constrained")
        ax = figure.add_subplot(projection="3d" if solid else None)
    if isinstance(domain, Domain):
        for part in domain.shape.part_names:
            x = domain.shape.boundary(1500 if solid else 3000, part)[0]
            ax.plot(*x.T, ".", ms=1.5 if solid else 2.5, label=part, alpha=0.5 if solid else 1)
    elif len(space) == 2:
        (a, b), (c, d) = (domain.bounds[axis] for axis in space)
        ax.plot([a, b, b, a, a], [c, c, d, d, c], "k", lw=1)
    random = any(callable(on) or isinstance(getattr(on, "rule", None), Uniform) for on in problem.sets())
    drawn = problem.draw(size, jax.random.key(0) if random else None)
    for points, on in zip(drawn, problem.sets(), strict=True):
        x = np.asarray(points.coords)[:, list(space)]
        columns = x.T if len(space) > 1 else [x[:, 0], np.zeros(len(x))]
        label = str(on) if isinstance(on, Region) else "given points"
        ax.plot(*columns, "+" if len(space) > 1 else "|", ms=4, alpha=0.7, label=f"{label}: {len(x)}")
        if "normal" in points.data and len(space) == 2:
            normal = np.asarray(points.data["normal"])[:, list(space)]
            ax.quiver(*x.T, *normal.T, width=2e-3, scale=25, alpha=0.6)
    names = [domain.names[axis] for axis in space]
    ax.set_xlabel(names[0])
    if len(space) > 1:
        ax.set_ylabel(names[1])
        ax.set_aspect("equal")
    if solid:
        ax.set_zlabel(names[2])
    ax.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1), markerscale=2)
    return ax


def _domain(solution: Shown) -> Any:
    """The domain of a solution's φ."""
    domain = solution.problem.domain
    return domain.at(solution.phi) if isinstance(domain, MovingDomain) else domain


def _space(domain: Box) -> list[int]:
    """The axes of space: a shape's own; of a box all but t."""
    if isinstance(domain, Domain):
        return list(range(domain.shape.dim))
    return [axis for axis, name in enumerate(domain.names) if name != "t" or len(domain.names) == 1]


def _panels(domain: Box, at: dict[str, float]) -> list[tuple[list[int], dict[int, float]]]:
    """What each panel shows: the axes along it, and the values of all others."""
    held = {domain.axis(name): float(value) for name, value in at.items()}
    for axis, value in held.items():
        low, high = domain.bounds[axis]
        if not low <= value <= high:
            name = domain.names[axis]
            raise ValueError(
                f"plot: {name} = {value:g} is outside; {name} runs from {low:g} to {high:g}."
            )
    free = [axis for axis in range(len(domain.names)) if axis not in held]
    space = [axis for axis in free if axis in _space(domain)]
    others = [axis for axis in free if axis not in space]
    middle = {axis: sum(domain.bounds[axis]) / 2 for axis in range(len(domain.names))}
    if not free:
        raise ValueError("plot: `at` holds every coordinate.")
    if len(free) <= 2:
        return [(free, held)]
    if len(space) == 3:
        ends = {axis: domain.bounds[axis][1] for axis in others}
        slices = [[a for a in space if a != axis] for axis in reversed(space)]
        return [(two, {**middle, **ends, **held}) for two in slices]
    if len(space) in (1, 2) and len(others) == 1:
        low, high = domain.bounds[others[0]]
        times = np.linspace(low, high, _TIMES)
        return [(space, {**held, others[0]: float(t)}) for t in times]
    names = ", ".join(domain.names[axis] for axis in free)
    raise ValueError(
        f"plot: {len(free)} coordinates are free ({names}): hold some, as in at={{'t': 0}}."
    )


def _surfaces(
    solution: Shown, ax: Any, names: tuple[str, ...], at: dict[str, float], level: float
) -> Any:
    """Where each unknown has a value, in three coordinates."""
    domain = _domain(solution)
    shown, held = _shown(domain, at)
    if len(shown) != 3:
        raise ValueError(
            f"plot: a surface where u = {level:g} is drawn in three coordinates; free are "
            f"{', '.join(domain.names[axis] for axis in shown)}."
        )
    axes = _axes(ax, len(names), 1, "3d")
    coords, cells = _mesh(domain, shown, at, _CUBES)
    fields = _fields(solution, coords)
    for (one,), name in zip(axes, names, strict=True):
        values = fields[name]
        triangles = facets_of(coords[:, shown][cells], values[cells] - level)
        if not len(triangles):
            least, most = np.nanmin(values), np.nanmax(values)
            raise ValueError(f"plot: {name} is {level:g} nowhere; it is from {least:.3g} to {most:.3g}.")
        _draw_surface(one, domain, shown, triangles)
        place = ", ".join(f"{domain.names[axis]} = {held[axis]:.3g}" for axis in sorted(held))
        one.set_title(", ".join(filter(None, [f"{name} = {level:g}", place])), fontsize=9)
    return axes


def _shown(domain: Box, at: dict[str, float]) -> tuple[list[int], dict[int, float]]:
    """The axes along a mesh, and the values of all others: those held, and the end of time."""
    held = {domain.axis(name): float(value) for name, value in at.items()}
    shown = [axis for axis in _space(domain) if axis not in held]
    ends = {axis: high for axis, (_, high) in enumerate(domain.bounds)}
    return shown, {axis: x for axis, x in (ends | held).items() if axis not in shown}


def _draw_surface(ax: Any, domain: Box, shown: list[int], triangles: np.ndarray) -> None:
    from matplotlib.colors import LightSource
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    area = np.linalg.norm(
        np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1
    )
    flat = area > 1e-12 * area.max()
    light = LightSource(azdeg=225, altdeg=45)
    faces = Poly3DCollection(
        triangles[flat], shade=True, lightsource=light, facecolors="tab:orange", linewidths=0
    )
    ax.add_collection3d(faces)
    if isinstance(domain, Domain) and shown == list(range(3)):
        around = domain.shape.boundary(1500)[0]
        ax.plot(*around.T, ".", ms=1, color="0.5", alpha=0.4)
    bounds = [domain.bounds[axis] for axis in shown]
    ax.set(xlim=bounds[0], ylim=bounds[1], zlim=bounds[2])
    ax.set_box_aspect([high - low for low, high in bounds])
    for set_label, axis in zip((ax.set_xlabel, ax.set_ylabel, ax.set_zlabel), shown, strict=True):
        set_label(domain.names[axis])


def _axes(ax: Any, rows: int, columns: int, projection: str | None = None) -> Any:
    if ax is None:
        from matplotlib import pyplot

        size = _inches(rows, columns)
        return pyplot.subplots(
            rows, columns, squeeze=False, figsize=size, layout="constrained",
            subplot_kw={"projection": projection},
        )[1]  # fmt: skip
    given = np.asarray(ax, object).reshape(-1)
    if len(given) != rows * columns:
        raise ValueError(f"plot: {rows * columns} panels need as many axes; found {len(given)}.")
    if projection is not None and any(one.name != projection for one in given):
        raise ValueError(f'plot: a surface needs axes of projection="{projection}".')
    return given.reshape(rows, columns)


def _inches(rows: int, columns: int) -> tuple[float, float]:
    return 1 + 3.6 * columns, 3 * rows


def _draw(ax: Any, solution: Shown, unknown: str, panel: tuple[list[int], dict[int, float]]) -> Any:
    """A line, or a map, which is returned."""
    domain, (shown, held) = _domain(solution), panel
    names = domain.names
    several = 400 if len(shown) == 1 else _ASIDE
    bounds = [domain.bounds[axis] for axis in shown]
    lines = [np.linspace(a, b, several) for a, b in bounds]
    coords = np.empty((several ** len(shown), len(names)))
    for axis in range(len(names)):
        coords[:, axis] = held.get(axis, 0.0)
    coords[:, shown] = tensor(lines, len(shown))
    values = _fields(solution, coords)[unknown].reshape([several] * len(shown))
    place = ", ".join(f"{names[axis]} = {held[axis]:.3g}" for axis in sorted(held) if axis not in shown)
    ax.set_title(", ".join(filter(None, [unknown, place])), fontsize=9)
    ax.set_xlabel(names[shown[0]])
    if len(shown) == 1:
        ax.plot(lines[0], values)
        return None
    ax.set_ylabel(names[shown[1]])
    picture = ax.pcolormesh(*lines, _filled(values).T, shading="gouraud", rasterized=True)
    if isinstance(domain, Domain) and np.isnan(values).any():
        space = list(range(domain.shape.dim))
        distance = np.asarray(domain.shape.distance(coords[:, space])).reshape(values.shape).T
        inside = ax.contourf(*lines, distance, [2 * min(distance.min(), -1.0), 0.0], alpha=0)
        picture.set_clip_path(inside.get_paths()[0], ax.transData)
        ax.contour(*lines, distance, [0.0], colors="k", linewidths=0.6)
    if set(shown) <= set(_space(domain)):
        ax.set_aspect("equal")
    ax.figure.colorbar(picture, ax=ax, shrink=0.8)
    return picture


def _filled(values: np.ndarray) -> np.ndarray:
    """Values with those of the nearest neighbour where there are none."""
    unknown = ~np.isfinite(values)
    if not unknown.any() or unknown.all():
        return np.nan_to_num(values)
    from scipy.ndimage import distance_transform_edt

    return values[tuple(distance_transform_edt(unknown, return_distances=False, return_indices=True))]


def _require_one(solution: Shown) -> None:
    if np.ndim(getattr(solution, "weights", 0)) > 1:
        raise ValueError("a picture or a file is of one φ; this solution is for a batch.")


def _fields(solution: Shown, coords: np.ndarray, *by: str) -> dict[str, np.ndarray]:
    """Each unknown, or a derivative, at points; NaN outside of the domain."""
    inside = ~_domain(solution).outside(coords)
    if not inside.any():
        raise ValueError("none of these points is inside of the domain.")
    values_of, unknowns = solution.d(*by)(coords[inside]), solution.problem.unknowns
    values_of = values_of if isinstance(values_of, dict) else {unknowns[0]: values_of}
    out = {}
    for name, values in values_of.items():
        out[name] = np.full(len(coords), np.nan)
        out[name][inside] = np.asarray(values)
    return out


def _residuals(solution: Shown, coords: np.ndarray) -> dict[str, np.ndarray]:
    """The equations of conditions inside, at points: the root of their sum of squares."""
    problem, out = solution.problem, {}
    names = problem.domain.names
    for name, condition in zip(problem.names(), problem.conditions, strict=True):
        on = condition.on
        if condition.kind == "Energy" or not isinstance(on, Region) or on.sides != ((),):
            continue
        data = on.known(coords) if isinstance(on, ShapeRegion) else {}
        points = Points(coords, **data)
        asked = asks_for(condition, problem.unknowns, names, points, solution.phi)[0]
        field = lambda entry: _fields(solution, coords, *(names[i] for i in entry.axes))[entry.unknown]
        entries = {entry: jnp.asarray(field(entry)) for entry in sorted(asked)}
        rows = local(condition, problem.unknowns, names)
        values = jax.vmap(lambda e, z, rows=rows: rows(e, z, solution.phi))(entries, located(points))
        label = name if condition.name else describe(condition)
        out[f"residual {label}"] = np.linalg.norm(np.asarray(values), axis=1)
    return out


def _mesh(
    domain: Box, shown: list[int], held: dict[str, float], cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Points of a mesh of the shape and its simplices: those of a grid, the corners that are near the
    boundary or just beyond moved onto it."""
    low, high = np.asarray(domain.bounds)[shown].T
    number = np.maximum(2, np.ceil((high - low) / (high - low).max() * cells)).astype(int)
    lines = [np.linspace(a, b, n + 1) for a, b, n in zip(low, high, number, strict=True)]
    x, dim, h = tensor(lines, len(shown)), len(shown), float(np.max((high - low) / number))
    values = [held.get(name, ends[1]) for name, ends in domain.ranges()]

    def placed(x: np.ndarray) -> np.ndarray:
        coords = np.tile(np.asarray(values, float), (len(x), 1))
        coords[:, shown] = x
        return coords

    keep = np.ones(len(x), bool)
    if isinstance(domain, Domain):
        distance = lambda x: np.asarray(domain.shape.distance(placed(x)[:, : domain.shape.dim]))
        d = distance(x)
        near = (d > -0.3 * h) & (d < 1.2 * h)
        x[near] = onto_level(distance, x[near], h, steps=6)[0]
        keep = distance(x) <= 1e-7 * domain.shape.size
    simplices = simplices_of(tuple((number + 1).tolist()))
    simplices = simplices[keep[simplices].all(axis=1)]
    volume = np.abs(np.linalg.det(x[simplices[:, 1:]] - x[simplices[:, :1]]))
    simplices = simplices[volume > 1e-3 * h**dim]
    if isinstance(domain, Domain):  # what bridges a gap
        simplices = simplices[distance(x[simplices].mean(axis=1)) < 1e-3 * h]
    used, simplices = np.unique(simplices, return_inverse=True)
    return placed(x[used]), simplices.reshape(-1, dim + 1)
