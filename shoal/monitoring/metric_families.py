"""Numbers as Prometheus has them: a name, what it means, and a value or one for each label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import Metric


def counter(name: str, about: str, values: Any, *labels: str) -> Metric:
    """What only grows."""
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(f"shoal_{name}", about, labels=labels), values)


def gauge(name: str, about: str, values: Any, *labels: str) -> Metric:
    """What goes up and down."""
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(f"shoal_{name}", about, labels=labels), values)


def _filled(family: Any, values: Any) -> Metric:
    """A number, or label(s) -> number; what is not known yet is absent."""
    for key, value in (values if isinstance(values, Mapping) else {(): values}).items():
        if value is not None:
            family.add_metric((key,) if isinstance(key, str) else key, value)
    return family
