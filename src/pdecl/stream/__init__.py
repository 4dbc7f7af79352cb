"""Answers for any number of φ, a batch in memory at a time, written as they come.

trained = pdecl.load(name)
with open_phi("many.h5", trained.family) as source:
    query = ask(trained, source.shape, grid=(201, 101), derivatives=["x"])
    summary = solve_stream(trained, source, "answers.h5", query)

Instead of `trained`, a solver from `pdecl.load` answers as well.
"""

from ..family.distance import FAR as FAR
from .answers import Answers as Answers
from .answers import Predictor as Predictor
from .answers import solutions_one_by_one as solutions_one_by_one
from .merge import merge as merge
from .phi import FromDistribution as FromDistribution
from .phi import FromItems as FromItems
from .phi import FromRows as FromRows
from .phi import Source as Source
from .phi import open_phi as open_phi
from .query import Query as Query
from .query import read_points as read_points
from .reading import AnswerFile as AnswerFile
from .reading import AnswersError as AnswersError
from .reading import open as open
from .results import ResultError as ResultError
from .stream import StreamReport as StreamReport
from .stream import ask as ask
from .stream import piece_of as piece_of
from .stream import pieces_of as pieces_of
from .stream import require_memory_for as require_memory_for
from .stream import slurm_piece as slurm_piece
from .stream import solve_stream as solve_stream
from .stream import stream_of as stream_of
from .summary import Bounds as Bounds
from .summary import BoundSummary as BoundSummary
from .summary import ErrorTarget as ErrorTarget
from .summary import StreamSummary as StreamSummary
from .summary import kind_of as kind_of
from .summary import status_name as status_name
