"""Many threads and tasks on two processes do everything at random; a checker explains what became of it.

Read plan (what is to be done), then load (the processes that do it, at random), history (what they and the
database wrote down), checker (what must be true of it), run (all together).
"""
