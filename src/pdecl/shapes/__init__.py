"""Shapes: domains that are no boxes."""

from .domain import Domain as Domain
from .files import Facets as Facets
from .files import load as load
from .moving import MovingDomain as MovingDomain
from .patches import ShapeError as ShapeError
from .primitives import Ball as Ball
from .primitives import Cuboid as Cuboid
from .primitives import Disk as Disk
from .primitives import Ellipse as Ellipse
from .primitives import HalfSpace as HalfSpace
from .primitives import Polygon as Polygon
from .primitives import Rectangle as Rectangle
from .primitives import Signed as Signed
from .shape import Part as Part
from .shape import Shape as Shape
