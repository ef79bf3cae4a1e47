"""Holds the module of the server."""
