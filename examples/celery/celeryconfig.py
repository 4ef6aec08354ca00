"""The cluster's broker, and settings for tasks that take long; your own settings go below."""

from gpuwork.celeryconfig import *

timezone = "Europe/Zurich"
