"""Before anything is spent: what a release will be like, from its settings and public numbers.

    pictures ─► curves ─┬► nights ─┐
                        └──────────┴► forecast: error, radius, price and nights by budget

How far a private mean errs depends on how its records lie, which is private, and on n·μ, which is
not. So the very same procedure is run on public pictures that come with scikit-image, and what they
err by, widened, is the range. It is an estimate; the guarantee does not rest on it. Read in this
order: ``pictures.py``, ``curves.py``, ``nights.py``, ``needed.py``, ``told.py``, ``meaning.py``,
``forecast.py``.
"""

from pipeline.planning.forecast import forecast
from pipeline.planning.told import Asked, ClassForecast, Expected, Forecast, Price

__all__ = ["Asked", "ClassForecast", "Expected", "Forecast", "Price", "forecast"]
