"""Packages, demonstrations and verdicts as a folder that Hugging Face's `datasets` loads without rover."""
