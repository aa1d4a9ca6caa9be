"""Runs on a Ray cluster: `make test-ray`."""
