"""The rules of a job, pure: no I/O, no clock, no chance.

Read states, lifecycle, job and outcome first; then content (what can be stored, with flaws: why not), graph
(who waits for whom) and drawing (the page that shows the lifecycle).
"""
