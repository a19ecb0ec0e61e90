"""Value factorisation for teams: see README.md in this folder."""

from shoal.algorithms.qmix.config import QMIXConfig
from shoal.algorithms.qmix.qmix import QMIX

__all__ = ["QMIX", "QMIXConfig"]
