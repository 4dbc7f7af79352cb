"""Types that signatures share."""

from typing import TypeAlias

from jaxtyping import PyTree

# φ, or a batch of them with a first axis more in every array: a number, an array, a tree of these. None
# where a problem has no parameter.
Phi: TypeAlias = PyTree
