"""Drives ACLs, policies and access points with boto3, whose defaults stay as they are: prints what each step was told."""

import json
import os
import sys

import boto3
from botocore.exceptions import ClientError

s3 = boto3.client("s3")
control = boto3.client("s3control")
BUCKET, ACCOUNT, EVERYONE = "boto-access", sys.argv[2], sys.argv[3]


def told(call, **given):
    try:
        answer = call(**given)
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}
    except ClientError as error:
        return error.response["Error"]["Code"]


def permissions(answer):
    return [grant["Permission"] for grant in answer["Grants"]]


def acls():
    s3.create_bucket(Bucket=BUCKET, ACL="public-read")
    born = permissions(s3.get_bucket_acl(Bucket=BUCKET))
    s3.put_object(Bucket=BUCKET, Key="key", Body=b"x", GrantRead=f'uri="{EVERYONE}"')
    granted = permissions(s3.get_object_acl(Bucket=BUCKET, Key="key"))
    whole = s3.get_object_acl(Bucket=BUCKET, Key="key")
    policy = {"Owner": whole["Owner"], "Grants": whole["Grants"]}
    s3.put_object_acl(Bucket=BUCKET, Key="key", AccessControlPolicy=policy)
    same = s3.get_object_acl(Bucket=BUCKET, Key="key")["Grants"] == whole["Grants"]
    s3.put_object_acl(Bucket=BUCKET, Key="key", ACL="private")
    both = told(s3.put_bucket_acl, Bucket=BUCKET, ACL="private", GrantRead=f'uri="{EVERYONE}"')
    return [born, granted, same, permissions(s3.get_object_acl(Bucket=BUCKET, Key="key")), both]


def policies():
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
    steps = [told(s3.get_bucket_policy, Bucket=BUCKET)]
    s3.put_bucket_policy(Bucket=BUCKET, Policy=policy)
    steps.append(s3.get_bucket_policy(Bucket=BUCKET)["Policy"] == policy)
    steps.append(told(s3.get_bucket_policy_status, Bucket=BUCKET))
    steps.append(told(s3.put_bucket_policy, Bucket=BUCKET, Policy="{}"))
    s3.delete_bucket_policy(Bucket=BUCKET)
    return [*steps, told(s3.get_bucket_policy_status, Bucket=BUCKET)]


def access_points():
    made = control.create_access_point(AccountId=ACCOUNT, Name="photos", Bucket=BUCKET)
    steps = [made["AccessPointArn"]]
    for name in (made["AccessPointArn"], made["Alias"]):
        s3.put_object(Bucket=name, Key="a b", Body=b"sent")
        steps.append(s3.get_object(Bucket=name, Key="a b")["Body"].read().decode())
        s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": name, "Key": "a b"})
        s3.delete_object(Bucket=name, Key="a b")
        steps.append([each["Key"] for each in s3.list_objects_v2(Bucket=name)["Contents"]])
    listed = control.list_access_points(AccountId=ACCOUNT, Bucket=BUCKET)["AccessPointList"]
    steps.append([each["Name"] for each in listed])
    steps.append(told(control.get_access_point_policy, AccountId=ACCOUNT, Name="photos"))
    steps.append(told(s3.delete_bucket, Bucket=BUCKET))
    control.delete_access_point(AccountId=ACCOUNT, Name="photos")
    return [*steps, told(s3.get_object, Bucket=made["Alias"], Key="a b")]


print(json.dumps({"acls": acls, "policies": policies, "access_points": access_points}[sys.argv[1]]()))
