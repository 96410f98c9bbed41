"""Memory formats: the order of the axes of an array, by the tags of oneDNN."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from ..._errors import message, shown
from ..._lowerings.parts.axis_slicing import pad

TAGS = {
    **dict.fromkeys(("ncw", "nchw", "ncdhw", "abc", "abcd", "abcde"), "channels_first"),
    **dict.fromkeys(("nwc", "nhwc", "ndhwc", "acb", "acdb", "acdeb"), "channels_last"),
    **dict.fromkeys(("nCw8c", "nChw8c", "nCdhw8c"), "blocked"),
    **dict.fromkeys(("nCw16c", "nChw16c", "nCdhw16c"), "blocked"),
}
"""The layout of each memory format tag; "blocked" is (N, C / block, spatial.., block)."""


def status_error(
    what: str, facts: str, advice: str, status: str = "invalid_arguments"
) -> ValueError:
    return ValueError(message(what, f"{facts} oneDNN's status is {status}.", advice))


def default_tag(shape: tuple[int, ...]) -> str:
    tags = {3: "ncw", 4: "nchw", 5: "ncdhw"}
    if len(shape) not in tags:
        raise status_error(
            f"an array of shape {shape} has no default tag.",
            "Default tags exist for 3, 4 or 5 axes: batch, channels, spatial axes.",
            "Add axes, or give a tag.",
        )
    return tags[len(shape)]


def spatial_count(tag: Any) -> int:
    if not isinstance(tag, str) or tag not in TAGS:
        raise status_error(
            f"$tag = {shown(tag)} is not a memory format of pooling.",
            f"The tags are {', '.join(TAGS)}.",
            "Give one of them.",
        )
    if tag.startswith("a"):
        return len(tag) - 2
    return sum(letter in "dhw" for letter in tag)


def check_rank(shape: tuple[int, ...], tag: str) -> None:
    blocked = TAGS[tag] == "blocked"
    rank = spatial_count(tag) + 2 + blocked
    if len(shape) != rank or (blocked and shape[-1] != block_size(tag)):
        raise status_error(
            f"an array of shape {shape} does not have the layout {tag}.",
            f"It needs {rank} axes{f', the last of length {block_size(tag)}' if blocked else ''}.",
            "Give the tag that the array has, or reorder it.",
        )


def check_channels(channels: int, length: int, tag: str) -> None:
    """Raise unless ``channels``, padded to full blocks, are ``length`` channels in the format."""
    padding = block_size(tag) - 1 if TAGS[tag] == "blocked" else 0
    least = max(length - padding, 0)
    if not least <= channels <= length:
        held = str(length) if least == length else f"{least} to {length}"
        raise status_error(
            f"$channels = {channels} is not the number of channels of the tensor.",
            f"An array of this shape in the format {tag} has {held} channels.",
            "Give the number without padding, or leave it out.",
        )


def block_size(tag: str) -> int:
    return 16 if tag.endswith("16c") else 8


def channels_last(x: Array, tag: str) -> Array:
    if TAGS[tag] == "channels_first":
        return jnp.moveaxis(x, 1, -1)
    if TAGS[tag] == "blocked":
        x = jnp.moveaxis(x, 1, -2)
        return x.reshape(*x.shape[:-2], -1)
    return x


def from_channels_last(x: Array, tag: str) -> Array:
    if TAGS[tag] == "channels_first":
        return jnp.moveaxis(x, -1, 1)
    if TAGS[tag] == "blocked":
        block = block_size(tag)
        x = pad(x, -1, 0, -x.shape[-1] % block)
        return jnp.moveaxis(x.reshape(*x.shape[:-1], -1, block), -2, 1)
    return x
