"""A pytest plugin: the suite of s3fs runs against the S3 server at SLUICE_ENDPOINT instead of a moto server of its own."""

import functools
import os

import botocore.loaders
import botocore.session
import requests

endpoint = os.environ["SLUICE_ENDPOINT"]

# Each test makes sessions of its own, and each session parses the megabytes of JSON that describe the services.
load_file = functools.cache(botocore.loaders.JSONFileLoader().load_file)
botocore.loaders.JSONFileLoader.load_file = lambda _loader, path: load_file(path)


@functools.cache
def root_client():
    return botocore.session.get_session().create_client("s3", endpoint_url=endpoint)


def empty_service():
    """Removes every bucket, as a reset of moto does before each test."""
    client = root_client()
    for bucket in client.list_buckets()["Buckets"]:
        name = bucket["Name"]
        while True:
            page = client.list_object_versions(Bucket=name)
            rows = page.get("Versions", []) + page.get("DeleteMarkers", [])
            if not rows:
                break
            objects = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
            client.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
        client.delete_bucket(Bucket=name)


real_post = requests.post


def post(url, *args, **options):
    if "moto-api/reset" in url:
        return empty_service()
    return real_post(url, *args, **options)


requests.post = post


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        if hasattr(module, "endpoint_uri"):
            module.endpoint_uri = endpoint + "/"
            module.port = int(endpoint.rsplit(":", 1)[1])
