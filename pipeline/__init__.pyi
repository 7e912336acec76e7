from .datasets import open_dataset as open_dataset
from .descriptors import DESCRIPTORS as DESCRIPTORS
from .descriptors import describe as describe
from .descriptors import domain as domain
from .geometry import MANIFOLDS as MANIFOLDS
from .geometry import frechet_mean as frechet_mean
from .mean import Ball as Ball
from .mean import private_mean as private_mean
from .mechanisms import LATTICE as LATTICE
from .mechanisms import MECHANISMS as MECHANISMS
from .privacy import GDP as GDP
from .privacy import ZCDP as ZCDP
from .privacy import ApproxDP as ApproxDP
from .privacy import PureDP as PureDP

__version__: str
