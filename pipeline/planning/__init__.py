"""Before anything is spent: what a release will be like, from its settings and public numbers.

    curves, of public pictures ─► error, radius, price, nights by budget, all in ``forecast.py``

The error of a private mean depends on how widely its records spread, which is private, and on n·μ,
which is not. So the same procedure is run on public pictures that come with scikit-image. Their
error, widened, is the range. It is an estimate; the guarantee does not rest on it.
"""

from pipeline.planning.forecast import BudgetPrice as BudgetPrice
from pipeline.planning.forecast import ClassForecast as ClassForecast
from pipeline.planning.forecast import Expected as Expected
from pipeline.planning.forecast import Forecast as Forecast
from pipeline.planning.forecast import ForecastRequest as ForecastRequest
from pipeline.planning.forecast import forecast as forecast
