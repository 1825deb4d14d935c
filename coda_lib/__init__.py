"""The CODA kit: a trainable planner, a frozen executor, and everything needed to reproduce arXiv 2508.20096."""

__version__ = "0.1.0"
