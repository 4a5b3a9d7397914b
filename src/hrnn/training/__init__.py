"""Training: a run is a function of a configuration and a folder, and can be stopped and continued anywhere."""
