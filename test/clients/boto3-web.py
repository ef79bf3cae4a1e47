"""One step of the boto3 suite about browsers: prints what boto3-web.test.ts expects, as JSON. Its defaults stay as they are."""

import json
import os
import sys

import boto3
import urllib3
from botocore.config import Config

ENDPOINT = os.environ["ENDPOINT"]
http = urllib3.PoolManager()


def client(**config):
    return boto3.client("s3", endpoint_url=ENDPOINT, config=Config(**config))


s3 = client()


def send(post, name, body):
    fields = {**post["fields"], "file": (name, body, "application/octet-stream")}
    return http.request("POST", post["url"], fields=fields, redirect=False)


def form(version):
    """What generate_presigned_post makes is sent as a browser would, as it is and with a change."""
    signing = client(signature_version=version) if version != "default" else s3
    bucket = f"boto-form-{version}"
    s3.create_bucket(Bucket=bucket)
    post = signing.generate_presigned_post(
        bucket,
        "up/${filename}",
        Fields={"Content-Type": "text/plain", "x-amz-meta-colour": "blue", "success_action_status": "201"},
        Conditions=[
            {"Content-Type": "text/plain"},
            {"x-amz-meta-colour": "blue"},
            {"success_action_status": "201"},
            ["content-length-range", 1, 1024],
        ],
    )
    taken = send(post, "a é.txt", b"hello")
    got = s3.get_object(Bucket=bucket, Key="up/a é.txt")
    changed = {**post, "fields": {**post["fields"], "x-amz-meta-colour": "red"}}
    added = {**post, "fields": {**post["fields"], "acl": "public-read"}}
    return {
        "signature": sorted(name for name in post["fields"] if "ignature" in name),
        "status": taken.status,
        "key": "<Key>up/a é.txt</Key>" in taken.data.decode(),
        "body": got["Body"].read().decode(),
        "type": got["ContentType"],
        "metadata": got["Metadata"],
        "refused": [send(changed, "b", b"x").status, send(added, "b", b"x").status],
        "lengths": [send(post, "b", b"").status, send(post, "b", b"x" * 1025).status],
        "keys": s3.list_objects_v2(Bucket=bucket)["KeyCount"],
    }


def redirect():
    s3.create_bucket(Bucket="boto-redirect")
    target = {"success_action_redirect": "https://app.example/done?from=form"}
    post = s3.generate_presigned_post("boto-redirect", "k", Fields=target, Conditions=[target])
    answer = send(post, "k", b"hello")
    return [answer.status, answer.headers["Location"]]


def cors():
    s3.create_bucket(Bucket="boto-cors")
    rule = {
        "ID": "r",
        "AllowedMethods": ["PUT", "GET"],
        "AllowedOrigins": ["https://*.example"],
        "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 60,
    }
    s3.put_bucket_cors(Bucket="boto-cors", CORSConfiguration={"CORSRules": [rule]})
    told = s3.get_bucket_cors(Bucket="boto-cors")["CORSRules"]
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "boto-cors", "Key": "k"})
    origin = {"Origin": "https://app.example"}
    asked = {**origin, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}
    preflight = http.request("OPTIONS", url, headers=asked)
    put = http.request("PUT", url, body=b"x", headers=origin)
    foreign = http.request("OPTIONS", url, headers={**asked, "Origin": "https://example.org"})
    s3.delete_bucket_cors(Bucket="boto-cors")
    without = http.request("OPTIONS", url, headers=asked)
    return {
        "told": told == [rule],
        "preflight": [preflight.status, preflight.headers["Access-Control-Allow-Headers"]],
        "put": [put.status, put.headers["Access-Control-Allow-Origin"]],
        "refused": [foreign.status, without.status],
    }


def website(domain):
    bucket = "boto-site"
    s3.create_bucket(Bucket=bucket)
    configuration = {
        "IndexDocument": {"Suffix": "index.html"},
        "ErrorDocument": {"Key": "oops.html"},
        "RoutingRules": [
            {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "new/"}}
        ],
    }
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=configuration)
    told = s3.get_bucket_website(Bucket=bucket)
    for key in "index.html", "oops.html", "a/index.html":
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), ContentType="text/html", ACL="public-read")

    def visit(path):
        return http.request("GET", ENDPOINT + path, headers={"Host": f"{bucket}.{domain}"}, redirect=False)

    pages = [visit(path) for path in ("/", "/a/", "/absent")]
    moved = [visit(path) for path in ("/a", "/old/x")]
    return {
        "told": {name: told[name] for name in configuration} == configuration,
        "pages": [[page.status, page.data.decode()] for page in pages],
        "moved": [[page.status, page.headers.get("Location")] for page in moved],
    }


print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
