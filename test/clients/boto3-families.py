"""Drives every bucket configuration with boto3, whose defaults stay as they are: prints what each step was told."""

import json
import os
import sys

import boto3
from botocore import xform_name
from botocore.exceptions import ClientError

s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"])


def call(operation, **given):
    told = getattr(s3, xform_name(operation))(Bucket=BUCKET, **given)
    return {name: value for name, value in told.items() if name != "ResponseMetadata"}


def told(family):
    try:
        return call("Get" + family["of"], **family.get("more", {}))
    except ClientError as error:
        return error.response["Error"]["Code"]


def drive(family):
    more = family.get("more", {})
    put = "Put" + family["of"]
    steps = [told(family)]
    call(put, **more, **{family["parameter"]: family["value"]})
    steps.append(told(family))
    remove = family.get("remove", "Delete" + family["of"])
    if remove == "emptied":
        call(put, **more, **{family["parameter"]: {}})
    else:
        call(remove, **more)
    return [*steps, told(family)]


BUCKET, families = sys.argv[2], json.load(open(sys.argv[3], encoding="utf8"))
s3.create_bucket(Bucket=BUCKET)
s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
print(json.dumps({family["of"]: drive(family) for family in families}))
