"""A basis for a family without a network: POD modes of the library's own solutions.

Some hundred φ of the law are solved to a tolerance; the solutions, on one grid of pieces, give the
functions; `compiled/` keeps as many of them as the tolerance asks for, and the points whose rows matter.

`common` puts solutions into one space; `make` trains; `fit` is the verb.
"""

from .fit import fit as fit
