"""Evidence: traces of what silicon did, launch files, and their replay against the model."""
