"""`python -m pdecl.cli`, for a source tree that is not installed."""

from . import app

app()
