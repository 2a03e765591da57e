"""The cluster of a launch: what it asks for, what the kernel requires, and what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smemsim.core.spec.launches import LAUNCH_LIMITS, PORTABLE_CLUSTER
from smemsim.virtual.errors import INVALID_CLUSTER, NOT_SUPPORTED, CudaError

if TYPE_CHECKING:
    from smemsim.virtual.code import Function

__all__ = ["check_size", "chosen", "cluster_of", "given_cluster", "required"]


def cluster_of(f: Function, cluster: Any) -> tuple[int, int, int] | None:
    """The cluster of a launch, from what it asks for and what the kernel requires. None if it has none. CudaError for
    one that is refused whatever the grid.

    Error 912 of launches is measured on an H200; that cudaOccupancyMaxActiveClusters takes the same clusters is
    inferred.
    """
    found = chosen(f, given_cluster(cluster))
    if found is not None:
        _check_rank(f, found)
    return found


def required(f: Function) -> tuple[int, int, int] | None:
    """The cluster that the kernel requires; None if it requires none."""
    if not any(own := f.cluster):
        return None
    if min(own) <= 0:
        raise CudaError(
            INVALID_CLUSTER, f"cluster = {own}: the attributes of {f.readable} that require a cluster are all 0 or all positive"
        )
    return own


def chosen(f: Function, given: tuple[int, int, int] | None) -> tuple[int, int, int] | None:
    """The cluster of a launch that asks for `given`."""
    own = required(f)
    if given and own and "reqnctapercluster" in f.directives and given != own:
        raise CudaError(INVALID_CLUSTER, f"cluster = {given}: {f.readable} requires {own}")
    if given is None and own is None and "explicitcluster" in f.directives:
        raise CudaError(INVALID_CLUSTER, f"{f.readable} has .explicitcluster: a launch needs the cluster dimension attribute")
    return given or own


def given_cluster(cluster: Any) -> tuple[int, int, int] | None:
    """The cluster that a launch asks for. None without one: no attribute, or one with three zeros."""
    if cluster is None:
        return None
    x, y, z = (*((cluster,) if isinstance(cluster, int) else cluster), 1, 1)[:3]
    given = x, y, z
    if not any(given):
        return None
    if not all(given):
        raise CudaError(INVALID_CLUSTER, f"cluster = {given}: one of its dimensions is 0")
    return given


def check_size(f: Function, cluster: tuple[int, ...], grid: tuple[int, ...]) -> None:
    """Raise CudaError for a cluster that the grid is no multiple of, or that has too many CTAs."""
    size = math.prod(cluster)
    if size > 1 and not f.module.device.card.named("cluster_launch"):
        raise CudaError(NOT_SUPPORTED, f"cluster = {cluster}: {f.module.device.card.name} has no clusters")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise CudaError(INVALID_CLUSTER, f"grid = {grid}: is no multiple of the cluster {cluster}")
    if size > (LAUNCH_LIMITS.cluster if f.allows_large_clusters else PORTABLE_CLUSTER):
        raise CudaError(
            INVALID_CLUSTER,
            f"cluster = {cluster}: {size} CTAs; more than {PORTABLE_CLUSTER} need cudaFuncAttributeNonPortableClusterSizeAllowed",
        )
    _check_rank(f, cluster)


def _check_rank(f: Function, cluster: tuple[int, ...]) -> None:
    """Raise CudaError for a cluster of more CTAs than the kernel is compiled for."""
    size = math.prod(cluster)
    most = f.directives.get("maxclusterrank", (size,))[0]
    if size > most:
        raise CudaError(INVALID_CLUSTER, f"cluster = {cluster}: {f.readable} is compiled for at most {most} CTAs (.maxclusterrank)")
