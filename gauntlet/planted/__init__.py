"""Deliberate mistakes, planted into a scratch database by name: a checker that never fails proves nothing.

They live here and nowhere else; nothing of the package knows of them.
"""

from gauntlet.planted.catalogue import PLANTED
from gauntlet.planted.plant import Edit, Plant, plant

__all__ = ["PLANTED", "Edit", "Plant", "plant"]
