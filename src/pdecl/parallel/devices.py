"""A batch of φ split over devices, each with its share of the φ and all of the network.

Programs are `shard_map`s over one axis of φ, with collectives where they are written and nowhere else:
loops of single LAPACK calls, of which CPU programs are made (`layer/batching.py`), and loops that end
when all of a batch are done would make a partitioner gather the batch, or ask all devices in each turn.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from ..support.mistakes import found
from ..support.types import Phi

PHI = "phi"
Devices = Sequence[jax.Device] | Mesh


def mesh_of(devices: Any, where: str) -> Mesh:
    """The devices as a mesh of one axis of φ, whatever axes they came with; or a clear error."""
    listed = devices.devices.ravel().tolist() if isinstance(devices, Mesh) else devices
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise TypeError(f"{where}: {_WANTED}; found {found(devices)}.")
    if not listed:
        raise ValueError(f"{where}: `devices` is empty; jax.devices() are all there are.")
    for device in listed:
        if not isinstance(device, jax.Device):
            raise TypeError(f"{where}: {_WANTED}; found {found(device)} in it.")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{where}: `devices` names a device twice; jax.devices() has each once.")
    return Mesh(np.asarray(listed), (PHI,))


_WANTED = "`devices` must be a sequence of JAX's devices, jax.devices() say, or a jax.sharding.Mesh"


def require_all_processes(mesh: Mesh, where: str) -> None:
    """That each process has a device in the mesh."""
    taking_part = {device.process_index for device in mesh.devices.ravel()}
    absent = sorted(set(range(jax.process_count())) - taking_part)
    if absent:
        raise ValueError(
            f"{where}: `devices` has none of process {absent[0]}, of {jax.process_count()} processes. "
            "Every process takes part in the training: give jax.devices(), which are those of all."
        )


def require_even(mesh: Mesh, batch: int, where: str) -> None:
    """That each device gets as many φ as the others."""
    if batch % mesh.size:
        fits = [size for size in range(1, mesh.size + 1) if batch % size == 0]
        raise ValueError(
            f"{where}: a batch of {batch} φ cannot be split evenly over {mesh.size} devices. Give "
            f"`batch` a multiple of {mesh.size}, or {fits[-1]} of the devices."
        )


def mesh_of_batch(phis: Phi) -> Mesh | None:
    """The devices over which arrays are split along their first axis, in its order. None where they are
    not, or otherwise, or not all of this process."""
    leaves = [leaf for leaf in jax.tree.leaves(phis) if eqx.is_array(leaf)]
    meshes = {_split_over(leaf) for leaf in leaves}
    return next(iter(meshes)) if len(meshes) == 1 else None


def _split_over(leaf: object) -> Mesh | None:
    if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array) or leaf.ndim == 0:
        return None
    if not leaf.is_fully_addressable or len(leaf.sharding.device_set) == 1:
        return None
    parts = leaf.sharding.devices_indices_map(leaf.shape)
    whole = [slice(None)] * (leaf.ndim - 1)
    starts = {device: index[0].start or 0 for device, index in parts.items()}
    if len(set(starts.values())) < len(parts) or any(
        list(index[1:]) != whole for index in parts.values()
    ):
        return None
    return Mesh(np.asarray(sorted(parts, key=lambda device: starts[device])), (PHI,))


def mesh_in_vmap(phi: Phi) -> Mesh | None:
    """The same, of arrays that `vmap` is going through just now, outside of any other transformation."""
    leaves = jax.tree.leaves(phi)
    if not leaves or not all(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    if any(type(jax.lax.stop_gradient(leaf)) is not type(leaf) for leaf in leaves):
        return None  # being differentiated, which `custom_vmap` does not pass on
    see = lambda size, moves, leaves: mesh_of_batch(leaves) if all(moves) else None
    return look_at_batch(leaves, see)


def look_at_batch(leaves: list[Any], see: Callable[[int, list[bool], list[Any]], Any]) -> Any:
    """What `see(size, moves, leaves)` says of the arrays that `vmap` is going through: how long its axis
    is, which of them have one, and they with it, the axis first. None outside of `vmap`."""
    seen: list[Any] = []  # by the rule for a batch

    @jax.custom_batching.custom_vmap
    def look(leaves: list[Any]) -> Any:
        return jnp.zeros(())

    @look.def_vmap
    def rule(size: int, in_batched: list[list[bool]], leaves: list[Any]) -> tuple[Any, bool]:
        seen.append(see(size, in_batched[0], leaves))
        return jnp.zeros(()), False

    look(leaves)
    return seen[0] if seen else None


def placed(phis: Phi, mesh: Mesh) -> Any:
    """A batch split over the devices of a mesh, whose number divides it."""
    return jax.device_put(phis, NamedSharding(mesh, PartitionSpec(PHI)))


def over_devices(
    function: Callable[[Any, Any], Any], mesh: Mesh | None, given: PyTree, phis: Phi
) -> Any:
    """`function(given, phis)`, each device for its φ. To be called inside `jit`."""
    if mesh is None:
        return function(given, phis)
    arrays, static = eqx.partition(given, eqx.is_array)
    on_each = lambda arrays, phis: function(eqx.combine(arrays, static), phis)
    return split(on_each, mesh, ["given", PHI], PHI)(arrays, phis)


def replicated(tree: PyTree, mesh: Mesh) -> Any:
    """The arrays on every device of a mesh. All processes must hold the same."""
    everywhere = NamedSharding(mesh, PartitionSpec())

    def place(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and leaf.sharding == everywhere:
            return leaf
        if jax.process_count() == 1:
            return jax.device_put(leaf, everywhere)
        # Not `device_put`, which would first send them all around to compare them.
        return jax.make_array_from_callback(np.shape(leaf), everywhere, lambda index: leaf[index])

    return jax.tree.map(place, tree)


def local(tree: PyTree) -> Any:
    """Replicated arrays as this process's own, on its first device."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)


def gathered(tree: PyTree) -> Any:
    """Arrays that are split over devices as NumPy's, in every process. All of them must ask."""
    if jax.process_count() == 1:
        return jax.tree.map(np.asarray, tree)
    from jax.experimental.multihost_utils import process_allgather

    return jax.tree.map(lambda leaf: np.asarray(process_allgather(leaf, tiled=True)), tree)


def agreed(number: float, mesh: Mesh | None) -> float:
    """A number that processes may see differently, such as the time: as the first one sees it."""
    if mesh is None or jax.process_count() == 1:
        return number
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return float(broadcast_one_to_all(np.float64(number)))


def share(tree: PyTree, mesh: Mesh | None) -> Any:
    """Inside `split`: of arrays of a whole batch, in the order of φ's numbers, this device's part."""
    if mesh is None:
        return tree
    number = jax.lax.axis_index(PHI)

    def part(leaf: jax.Array) -> Any:
        count = leaf.shape[0] // mesh.size
        return jax.lax.dynamic_slice_in_dim(leaf, number * count, count)

    return jax.tree.map(part, tree)


def gathers_soon(mesh: Mesh) -> bool:
    """Whether devices get arrays from each other sooner than they make them: GPUs of one process do, and
    CPUs, which are slower. Between GPUs of several hosts gathering takes as long as evaluating: the
    arithmetic is in docs/scaling.md."""
    devices = mesh.devices.ravel()
    near = len({device.process_index for device in devices}) == 1
    return mesh.size > 1 and (near or all(device.platform == "cpu" for device in devices))


def over_points(function: Callable[[Any], Any], coords: Any, mesh: Mesh) -> Any:
    """Inside `split`: arrays with a row for each point, by a function that is the same on every device.
    Each takes a part of the points, and gets from the others what they found at theirs."""
    count = -(-len(coords) // mesh.size)
    rest = jnp.broadcast_to(coords[-1:], (count * mesh.size - len(coords), coords.shape[1]))
    start = jax.lax.axis_index(PHI) * count
    mine = function(jax.lax.dynamic_slice_in_dim(jnp.concatenate([coords, rest]), start, count))
    leaves, structure = jax.tree.flatten(mine)
    rows = jnp.concatenate([leaf.reshape(count, -1) for leaf in leaves], axis=1)
    every = jax.lax.all_gather(rows, PHI, tiled=True)[: len(coords)]
    ends = np.cumsum([math.prod(leaf.shape[1:]) for leaf in leaves])
    parts = [
        part.reshape(len(coords), *leaf.shape[1:]).astype(leaf.dtype)
        for part, leaf in zip(jnp.split(every, ends[:-1], axis=1), leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, parts)


def averaged(tree: PyTree, mesh: Mesh | None) -> Any:
    """Inside `split`: the mean over all devices, by one collective however many arrays there are."""
    if mesh is None:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    kinds: dict[Any, list[int]] = {}
    for place, leaf in enumerate(leaves):
        kinds.setdefault(jnp.result_type(leaf), []).append(place)
    for places in kinds.values():
        flat, apart = ravel_pytree([leaves[place] for place in places])
        for place, leaf in zip(places, apart(jax.lax.pmean(flat, PHI)), strict=True):
            leaves[place] = leaf
    return jax.tree.unflatten(structure, leaves)


def split(
    function: Callable[..., Any], mesh: Mesh | None, inputs: Sequence[str], outputs: PyTree
) -> Any:
    """`function` on every device: of arguments that are the same everywhere or, named "phi", split along
    their first axis; what it returns likewise. To be called inside `jit`.

    It is traced as for one device. Inside `shard_map` shapes say too where arrays are, and those who
    compare shapes, as Lineax does, find them to differ from those that they have made themselves.
    """
    if mesh is None:
        return function

    def on_all(*arguments: Any) -> Any:
        like = [_part(one, name, mesh) for one, name in zip(arguments, inputs, strict=True)]
        trace = jax.make_jaxpr(function, axis_env=[(PHI, mesh.size)], return_shape=True)
        program, out = trace(*like)
        run, structure = jaxpr_as_fun(program), jax.tree.structure(out)
        on_each = lambda *mine: jax.tree.unflatten(structure, run(*jax.tree.leaves(mine)))
        spec = lambda name: PartitionSpec(PHI) if name == PHI else PartitionSpec()
        on_mesh = jax.shard_map(
            on_each,
            mesh=mesh,
            in_specs=tuple(map(spec, inputs)),
            out_specs=jax.tree.map(spec, outputs),
            check_vma=False,
        )
        return on_mesh(*arguments)

    return on_all


def _part(tree: PyTree, name: str, mesh: Mesh) -> Any:
    """What a device gets of arrays, as shapes."""

    def one(leaf: Any) -> jax.ShapeDtypeStruct:
        shape = (leaf.shape[0] // mesh.size, *leaf.shape[1:]) if name == PHI else leaf.shape
        return jax.ShapeDtypeStruct(shape, leaf.dtype)

    return jax.tree.map(one, tree)
