"""One step of the boto3 suite: prints what boto3.test.ts expects, as JSON. Its defaults stay as they are."""

import hashlib
import json
import os
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.exceptions import ClientError

s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"])
BUCKET = "boto-bucket"
MIB = 1024 * 1024


def sha(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make():
    s3.create_bucket(Bucket=BUCKET)
    s3.head_bucket(Bucket=BUCKET)
    return [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]


def small():
    put = s3.put_object(
        Bucket=BUCKET, Key="small é.txt", Body=b"hello", ContentType="text/plain", Metadata={"colour": "blue"}
    )
    got = s3.get_object(Bucket=BUCKET, Key="small é.txt")
    return {
        "etag": put["ETag"],
        "crc32": put.get("ChecksumCRC32"),
        "body": got["Body"].read().decode(),
        "type": got["ContentType"],
        "metadata": got["Metadata"],
    }


def large(path):
    s3.upload_file(path, BUCKET, "large.bin")
    head = s3.head_object(Bucket=BUCKET, Key="large.bin")
    s3.download_file(BUCKET, "large.bin", path + ".back")
    return {"etag": head["ETag"], "size": head["ContentLength"], "sha": sha(path + ".back")}


def wide(keys_file):
    with open(keys_file, encoding="utf8") as file:
        keys = json.load(file)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode()), keys))
    found = {}
    for version, name in ("v2", "list_objects_v2"), ("v1", "list_objects"):
        pages = s3.get_paginator(name).paginate(Bucket=BUCKET, Prefix="wide/")
        found[version] = [entry["Key"] for page in pages for entry in page["Contents"]]
    return found


def byte_range():
    got = s3.get_object(Bucket=BUCKET, Key="large.bin", Range=f"bytes={5 * MIB}-{5 * MIB + 9}")
    return {"body": got["Body"].read().hex(), "range": got["ContentRange"]}


def presign():
    """URLs of both versions: the region decides which one it makes."""
    told = {}
    for region in "us-east-1", "eu-central-1":
        signer = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name=region)
        params = {"Bucket": BUCKET, "Key": f"presigned é {region}"}
        put = signer.generate_presigned_url("put_object", Params=params)
        get = signer.generate_presigned_url(
            "get_object", Params={**params, "ResponseContentType": "text/x-chosen"}
        )
        urllib.request.urlopen(urllib.request.Request(put, data=b"by url", method="PUT", headers={"Content-Type": ""}))
        with urllib.request.urlopen(get) as answer:
            told[region] = {
                "body": answer.read().decode(),
                "type": answer.headers["Content-Type"],
                "version": 4 if "X-Amz-Signature" in get else 2,
            }
    return told


def names():
    """Names that the path, the query, the copy source, the listings and the XML of a deletion must all carry."""
    bucket = "boto-names"
    s3.create_bucket(Bucket=bucket)
    keys = ["a//b", "a/../b", "./x", "..", "/lead", "//lead", "dir/", "a%2Fb", "a b", "a+b", "e\u0301", "\u00e9", "日本"]
    keys += ["😀", "a\\b", "a?b", "a#b", "a&b;c", '"', "'", "<x>", "a\tb", "a\r\nb", "~", "*", "a=b", "%", "%zz"]
    keys += ["admin/x", "x?versioning", "healthz", "k" * 1024]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode(), key
        s3.copy_object(Bucket=bucket, Key="copy/" + key[:1000], CopySource={"Bucket": bucket, "Key": key})
        assert s3.get_object(Bucket=bucket, Key="copy/" + key[:1000])["Body"].read() == key.encode(), key
    listed = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 7}):
        listed += [entry["Key"] for entry in page["Contents"]]
    told = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in listed]})
    s3.delete_bucket(Bucket=bucket)
    expected = sorted(keys + ["copy/" + key[:1000] for key in keys], key=lambda key: key.encode())
    deleted = sorted([entry["Key"] for entry in told["Deleted"]], key=lambda key: key.encode())
    return {"listed": listed == expected, "deleted": deleted == expected}


def copy():
    s3.copy({"Bucket": BUCKET, "Key": "small é.txt"}, BUCKET, "copy")
    head = s3.head_object(Bucket=BUCKET, Key="copy")
    # More than 8 MiB, so that the transfer copies by parts.
    s3.copy({"Bucket": BUCKET, "Key": "large.bin"}, BUCKET, "large copy")
    path = os.path.join(os.environ["HOME"], "copy.back")
    s3.download_file(BUCKET, "large copy", path)
    return {"metadata": head["Metadata"], "type": head["ContentType"], "sha": sha(path)}


def errors():
    told = []
    for call in (
        lambda: s3.get_object(Bucket=BUCKET, Key="missing"),
        lambda: s3.get_object(Bucket="boto-missing", Key="missing"),
        lambda: s3.put_object(Bucket=BUCKET, Key="copy", Body=b"x", IfNoneMatch="*"),
        lambda: s3.delete_bucket(Bucket=BUCKET),
    ):
        try:
            call()
        except ClientError as error:
            told.append([error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]])
    return told


def versions():
    bucket = boto3.resource("s3", endpoint_url=os.environ["ENDPOINT"]).Bucket("boto-versions")
    bucket.create()
    bucket.Versioning().enable()
    for body in b"one", b"two":
        bucket.put_object(Key="key", Body=body)
    bucket.Object("key").delete()
    kinds = [
        [version.key, version.is_latest, version.size] for version in bucket.object_versions.filter(Prefix="key")
    ]
    bucket.object_versions.delete()
    bucket.delete()
    return kinds


def remove():
    bucket = boto3.resource("s3", endpoint_url=os.environ["ENDPOINT"]).Bucket(BUCKET)
    deleted = bucket.objects.all().delete()
    count = sum(len(answer.get("Deleted", [])) for answer in deleted)
    errors = [error for answer in deleted for error in answer.get("Errors", [])]
    bucket.delete()
    return {"count": count, "errors": errors, "buckets": s3.list_buckets()["Buckets"]}


print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
