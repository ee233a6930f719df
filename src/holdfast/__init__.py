"""Holdfast: a PostgreSQL-native job engine. The engine is SQL in your own database; Python is the hands."""

__version__ = "0.1.0"
