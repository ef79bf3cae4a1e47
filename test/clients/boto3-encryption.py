"""One step of the boto3 suite about encryption: prints what boto3-encryption.test.ts expects, as JSON."""

import hashlib
import json
import os
import sys

import boto3
from botocore.exceptions import ClientError

s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"])
BUCKET = "boto-encrypted"
ONE = bytes([1]) * 32
CUSTOMER = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": ONE}
SOURCE = {"CopySourceSSECustomerAlgorithm": "AES256", "CopySourceSSECustomerKey": ONE}
KMS = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "second"}
# What a write gives, what a read gives, what the copy of it gives.
WAYS = {
    "s3": ({"ServerSideEncryption": "AES256"}, {}, {}),
    "kms": (KMS, {}, {}),
    "c": (CUSTOMER, CUSTOMER, SOURCE),
}
SHOWN = ["ServerSideEncryption", "SSEKMSKeyId", "SSECustomerAlgorithm"]


def sha(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def small():
    s3.create_bucket(Bucket=BUCKET)
    told = {}
    for name, (write, read, copy) in WAYS.items():
        put = s3.put_object(Bucket=BUCKET, Key=name, Body=b"hello", **write)
        s3.copy_object(Bucket=BUCKET, Key=name + "-copy", CopySource=f"{BUCKET}/{name}", **copy, **write)
        got = s3.get_object(Bucket=BUCKET, Key=name + "-copy", **read)
        head = s3.head_object(Bucket=BUCKET, Key=name, **read)
        assert head["ContentLength"] == 5
        shown = [[answer.get(field) for field in SHOWN] for answer in (put, got, head)]
        assert shown[0] == shown[1] == shown[2], shown
        told[name] = [got["Body"].read().decode(), *shown[0]]
    return told


def large(path):
    """By the transfer manager: parts up, ranges down, parts copied."""
    told = {}
    for name, (write, read, copy) in WAYS.items():
        s3.upload_file(path, BUCKET, "large-" + name, ExtraArgs=write)
        # The head of the source that a copy by parts begins with needs its key under another name.
        s3.copy({"Bucket": BUCKET, "Key": "large-" + name}, BUCKET, "copied-" + name, ExtraArgs={**write, **copy})
        back = path + ".back"
        told[name] = []
        for key in "large-" + name, "copied-" + name:
            s3.download_file(BUCKET, key, back, ExtraArgs=read)
            told[name].append(sha(back))
    return told


def errors():
    told = []
    for arguments in {}, {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": bytes([2]) * 32}:
        try:
            s3.get_object(Bucket=BUCKET, Key="c", **arguments)
        except ClientError as error:
            told.append([error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]])
    return told


print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
