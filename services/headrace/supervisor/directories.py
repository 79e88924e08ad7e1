"""Names of what lies in the data directory of an installation, for those who only look there."""

from __future__ import annotations

LOGS = "logs"
CREDENTIALS = "credentials"
METRICS, METRICS_TOKEN = "metrics", "metrics.token"
CLUSTER_FILE = "elsewhere.json"
"""Where the parts of a cluster of several machines are, see `cluster.cluster_config`."""
