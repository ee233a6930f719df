"""What `holdfast dev` does: a worker that starts anew whenever a file is saved, beside the dashboard.

`watching` tells what was saved, `session` keeps the worker, `starter` is a first app for those who have none.
"""
