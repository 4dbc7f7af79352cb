"""`python -m pdecl_cli`, for a source tree that is not installed."""

from . import app

app()
