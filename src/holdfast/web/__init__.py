"""Holdfast over HTTP: an API, remote streams, the dashboard. `holdfast web` serves it.

Read `app` first: what there is. `access` says who may come in, `routes` has a file for every noun, and all of
it is a thin layer over `holdfast.console`. Nothing but `holdfast web` imports this package, because FastAPI
takes its time to load.
"""
