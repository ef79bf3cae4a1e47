"""One step of the boto3 suite about what is kept about objects: prints what boto3-objects.test.ts expects, as JSON."""

import json
import os
import sys
from datetime import datetime, timedelta, timezone

import boto3
from botocore.exceptions import ClientError

s3 = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"])


def refused(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        return [error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]]
    return None


def tagging():
    s3.create_bucket(Bucket="boto-tags")
    s3.put_bucket_versioning(Bucket="boto-tags", VersioningConfiguration={"Status": "Enabled"})
    at = {"Bucket": "boto-tags", "Key": "key é"}
    version = s3.put_object(**at, Body=b"x", Tagging="a=1&b=two%20words")["VersionId"]
    first = s3.get_object_tagging(**at)
    s3.put_object_tagging(**at, VersionId=version, Tagging={"TagSet": [{"Key": "ü", "Value": ""}]})
    second = s3.get_object_tagging(**at, VersionId=version)
    count = [s3.head_object(**at)["TagCount"], s3.get_object(**at)["TagCount"]]
    s3.delete_object_tagging(**at)
    return {
        "first": first["TagSet"],
        "second": second["TagSet"],
        "count": count,
        "versions": first["VersionId"] == second["VersionId"] == version,
        "left": s3.get_object_tagging(**at)["TagSet"],
        "many": refused(
            s3.put_object_tagging,
            **at,
            Tagging={"TagSet": [{"Key": str(i), "Value": ""} for i in range(11)]},
        ),
    }


def lock():
    bucket = "boto-locked"
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    configured = s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"]
    at = {"Bucket": bucket, "Key": "key"}
    version = {**at, "VersionId": s3.put_object(**at, Body=b"held")["VersionId"]}
    head = s3.head_object(**at)
    until = head["ObjectLockRetainUntilDate"]
    is_a_day = abs(until - head["LastModified"] - timedelta(days=1)) < timedelta(minutes=1)
    longer = until.replace(microsecond=0) + timedelta(days=1)
    s3.put_object_retention(**version, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": longer})
    s3.put_object_legal_hold(**version, LegalHold={"Status": "ON"})
    told = s3.get_object_retention(**version)["Retention"]
    result = {
        "configured": configured == {"ObjectLockEnabled": "Enabled", "Rule": rule},
        "default": [head["ObjectLockMode"], is_a_day],
        "longer": [told["Mode"], told["RetainUntilDate"] == longer],
        "hold": s3.get_object_legal_hold(**version)["LegalHold"]["Status"],
        "held": refused(s3.delete_object, **version, BypassGovernanceRetention=True),
    }
    s3.put_object_legal_hold(**version, LegalHold={"Status": "OFF"})
    result["retained"] = refused(s3.delete_object, **version)
    many = {"Objects": [{"Key": "key", "VersionId": version["VersionId"]}]}
    result["many"] = [error["Code"] for error in s3.delete_objects(Bucket=bucket, Delete=many)["Errors"]]
    s3.put_object_retention(**version, Retention={}, BypassGovernanceRetention=True)
    s3.delete_object(**version)
    result["gone"] = refused(s3.head_object, **version)
    future = datetime.now(timezone.utc) + timedelta(days=1)
    put = s3.put_object(
        **at,
        Body=b"x",
        ObjectLockMode="GOVERNANCE",
        ObjectLockRetainUntilDate=future,
        ObjectLockLegalHoldStatus="OFF",
    )
    again = {**at, "VersionId": put["VersionId"]}
    result["unset"] = refused(s3.get_object_retention, Bucket=bucket, Key="none")
    s3.delete_object(**again, BypassGovernanceRetention=True)
    s3.delete_bucket(Bucket=bucket)
    return result


def restore():
    s3.create_bucket(Bucket="boto-archive")
    at = {"Bucket": "boto-archive", "Key": "key"}
    s3.put_object(**at, Body=b"archived", StorageClass="DEEP_ARCHIVE")
    closed = refused(s3.get_object, **at)
    request = {"Days": 2, "GlacierJobParameters": {"Tier": "Bulk"}}
    first = s3.restore_object(**at, RestoreRequest=request)["ResponseMetadata"]["HTTPStatusCode"]
    second = s3.restore_object(**at, RestoreRequest=request)["ResponseMetadata"]["HTTPStatusCode"]
    listed = s3.list_objects_v2(Bucket="boto-archive", OptionalObjectAttributes=["RestoreStatus"])["Contents"][0]
    return {
        "closed": closed,
        "statuses": [first, second],
        "body": s3.get_object(**at)["Body"].read().decode(),
        "header": s3.head_object(**at)["Restore"].split(",")[0],
        "class": s3.head_object(**at)["StorageClass"],
        "listed": listed["RestoreStatus"]["IsRestoreInProgress"],
        "expires": listed["RestoreStatus"]["RestoreExpiryDate"] > datetime.now(timezone.utc) + timedelta(days=2),
    }


def attributes():
    s3.create_bucket(Bucket="boto-attributes")
    at = {"Bucket": "boto-attributes", "Key": "key"}
    put = s3.put_object(**at, Body=b"hello", StorageClass="STANDARD_IA")
    told = s3.get_object_attributes(
        **at, ObjectAttributes=["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    )
    return {
        "etag": f'"{told["ETag"]}"' == put["ETag"],
        "size": told["ObjectSize"],
        "class": told["StorageClass"],
        "crc32": told["Checksum"]["ChecksumCRC32"] == put["ChecksumCRC32"],
    }


print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
