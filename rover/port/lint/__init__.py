"""What a reader finds in a task that comes from elsewhere, without running anything of it.

Each module asks a few questions of one task and answers with findings of diagnosis, at file and line. What is written
there in so many words (an image without a digest) is confirmed; what only looks wrong is a hypothesis until a run
agrees: most such flags are false.
"""
