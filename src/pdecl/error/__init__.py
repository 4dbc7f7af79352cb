"""How wrong an answer may be: what bounds and estimates are made of."""

from .estimate import Estimator as Estimator
from .estimate import calibrate as calibrate
from .record import ErrorBound as ErrorBound
from .record import assemble as assemble
