"""Answers for any number of φ, a batch in memory at a time, written as they come.

trained = pdecl.load(name)
with open_phi("many.h5", trained.law) as source:
    query = ask(trained, source.shape, grid=(201, 101), derivatives=["x"])
    summary = solve_stream(trained, source, "answers.h5", query)

In the place of `trained`, a solver from `pdecl.load` answers as well.
"""

from .answers import Answering as Answering
from .answers import Answers as Answers
from .answers import trained_of as trained_of
from .demand import Bounds as Bounds
from .demand import Demand as Demand
from .demand import kind_of as kind_of
from .novelty import FAR as FAR
from .novelty import Novelty as Novelty
from .phi import FromItems as FromItems
from .phi import FromLaw as FromLaw
from .phi import FromRows as FromRows
from .phi import Source as Source
from .phi import open_phi as open_phi
from .query import Query as Query
from .query import read_points as read_points
from .results import ResultError as ResultError
from .stream import Summary as Summary
from .stream import ask as ask
from .stream import require_memory as require_memory
from .stream import solve_stream as solve_stream
from .stream import stream_of as stream_of
from .stream import usual_batch as usual_batch
from .tally import BoundTally as BoundTally
from .tally import Tally as Tally
from .tally import status_name as status_name
from .tally import usable as usable
