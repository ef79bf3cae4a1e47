"""Stands for moto, which the suite of s3fs imports: the gateway takes the place of its server."""

# The suite skips tests of conditional requests on versions of moto that lack them.
__version__ = "99.0.0"
