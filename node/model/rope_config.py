"""How a checkpoint turns positions into angles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from node.checkpoint import CheckpointError


@dataclass(frozen=True, slots=True)
class Yarn:
    """Stretching of the angles beyond the trained context (Peng et al., arXiv 2309.00071).

    factor            how many times the trained context is stretched
    trained_context   tokens of context the model was trained on
    fast, slow        turns in the trained context above which a frequency stays, below which it is divided
    attention_scale   factor on cos and sin, which makes up for the flatter softmax of a longer context
    whole_dims        whether the ramp's ends are rounded to whole dimensions
    """

    factor: float
    trained_context: int
    fast: float = 32.0
    slow: float = 1.0
    attention_scale: float = 1.0
    whole_dims: bool = True


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """How the heads turn.

    theta     base of the angles
    width     entries of a head that turn, even
    yarn      stretching, if any
    sections  angles that belong to time, height and width, interleaved; None where positions have one axis
    """

    theta: float
    width: int
    yarn: Yarn | None = None
    sections: tuple[int, int, int] | None = None

    @classmethod
    def parse(cls, text: Mapping[str, Any], head_dim: int, partial: float) -> RopeConfig:
        """Read `rope_parameters`, or the older `rope_theta` with `rope_scaling`.

        partial is the share of a head that turns where the configuration does not say. Raises CheckpointError on
        any kind of rope but default and yarn.
        """
        settings = text.get("rope_parameters") or {}
        if any(isinstance(value, Mapping) for value in settings.values()):
            raise CheckpointError(
                "settings that differ by layer type are not supported", key="rope_parameters"
            )
        settings = {**(text.get("rope_scaling") or {}), **settings}
        theta = settings.get("rope_theta", text.get("rope_theta"))
        if theta is None:
            raise CheckpointError("missing, in rope_parameters and beside it", key="rope_theta")
        share = settings.get("partial_rotary_factor", text.get("partial_rotary_factor", partial))
        width = int(head_dim * share)
        if width <= 0 or width % 2 or width > head_dim:
            raise CheckpointError(
                f"{share} of a head of {head_dim} is not an even width", key="partial_rotary_factor"
            )
        kind = settings.get("rope_type", settings.get("type", "default"))
        sections = _sections(settings, width)
        if kind == "default":
            return cls(float(theta), width, sections=sections)
        if kind == "yarn":
            return cls(float(theta), width, _yarn(settings, text), sections)
        raise CheckpointError(f"{kind!r} is not supported (default and yarn are)", key="rope_type")


def _sections(settings: Mapping[str, Any], width: int) -> tuple[int, int, int] | None:
    """None where they are not three parts of the angles: then positions have one axis, as those of text always do."""
    sections = list(settings.get("mrope_section") or [])
    if not settings.get("mrope_interleaved") or len(sections) != 3 or sum(sections) != width // 2:
        return None
    time, height, across = sections
    return time, height, across


def _yarn(settings: Mapping[str, Any], text: Mapping[str, Any]) -> Yarn:
    trained = settings.get("original_max_position_embeddings") or text.get("max_position_embeddings")
    factor = settings.get("factor")
    if not trained:
        raise CheckpointError("missing for yarn", key="original_max_position_embeddings")
    if not factor:
        raise CheckpointError("missing for yarn", key="factor")
    scale = settings.get("attention_factor")
    if scale is None:
        scale = _magnitude(factor, 1.0)
        if settings.get("mscale") and settings.get("mscale_all_dim"):
            scale = _magnitude(factor, settings["mscale"]) / _magnitude(factor, settings["mscale_all_dim"])
    return Yarn(
        factor=float(factor),
        trained_context=int(trained),
        fast=float(settings.get("beta_fast") or 32.0),
        slow=float(settings.get("beta_slow") or 1.0),
        attention_scale=float(scale),
        whole_dims=bool(settings.get("truncate", True)),
    )


def _magnitude(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
