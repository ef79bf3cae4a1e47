"""One step of the boto3 suite about IAM and STS: prints what boto3-iam.test.ts expects, as JSON."""

import json
import os
import sys

import boto3
from botocore.exceptions import ClientError

ENDPOINT = os.environ["ENDPOINT"]
iam = boto3.client("iam", endpoint_url=ENDPOINT)
sts = boto3.client("sts", endpoint_url=ENDPOINT)


def s3_of(keys):
    return boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys.get("SessionToken"),
    )


def document(*actions):
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def refused(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        return [error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]]
    return None


def users():
    user = iam.create_user(UserName="frank", Path="/staff/", Tags=[{"Key": "Team", "Value": "ü"}])["User"]
    iam.put_user_policy(UserName="frank", PolicyName="p", PolicyDocument=document("s3:*"))
    key = iam.create_access_key(UserName="frank")["AccessKey"]
    s3 = s3_of(key)
    s3.create_bucket(Bucket="boto-iam")
    pages = iam.get_paginator("list_users").paginate(PaginationConfig={"PageSize": 1})
    twice = refused(iam.create_user, UserName="frank")
    with_wrong_type = refused(iam.put_user_policy, UserName="frank", PolicyName="p", PolicyDocument="{}")
    return {
        "arn": user["Arn"],
        "tags": iam.get_user(UserName="frank")["User"]["Tags"],
        "document": iam.get_user_policy(UserName="frank", PolicyName="p")["PolicyDocument"]["Statement"][0]["Action"],
        "listed": [each["UserName"] for page in pages for each in page["Users"]],
        "refused": [twice, with_wrong_type, refused(iam.get_user, UserName="nobody")],
        "buckets": [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]],
    }


def roles():
    trust = {"Effect": "Allow", "Principal": {"AWS": "alice-account"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName="boto", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )["Role"]
    iam.put_role_policy(RoleName="boto", PolicyName="p", PolicyDocument=document("s3:*"))
    session = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="boto", ExternalId="unused")
    s3 = s3_of(session["Credentials"])
    s3.put_object(Bucket="boto-iam", Key="key", Body=b"by a session")
    urls = {}
    import urllib.request

    # Its default in us-east-1 is a version 2 query; the token is signed in both.
    for version in ("s3", "s3v4"):
        client = boto3.client(
            "s3",
            endpoint_url=ENDPOINT,
            aws_access_key_id=session["Credentials"]["AccessKeyId"],
            aws_secret_access_key=session["Credentials"]["SecretAccessKey"],
            aws_session_token=session["Credentials"]["SessionToken"],
            config=boto3.session.Config(signature_version=version),
        )
        url = client.generate_presigned_url("get_object", Params={"Bucket": "boto-iam", "Key": "key"})
        urls[version] = urllib.request.urlopen(url).read().decode()
    wrong = dict(session["Credentials"], SessionToken="x")
    return {
        "arn": session["AssumedRoleUser"]["Arn"],
        "urls": urls,
        "refused": [
            refused(s3_of(wrong).get_object, Bucket="boto-iam", Key="key"),
            refused(sts.assume_role, RoleArn="arn:aws:iam::alice-account:role/none", RoleSessionName="boto"),
        ],
        "form": form(s3),
    }


def regions():
    """Requests of clients that have an empty region, or none."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        os.environ.pop(name, None)
    session = boto3.session.Session()

    def status(service, call, **arguments):
        client = session.client(service, endpoint_url=ENDPOINT, **arguments)
        reply = getattr(client, call)()["ResponseMetadata"]
        assert reply["RequestId"] == reply["HTTPHeaders"].get("x-amzn-requestid", reply["RequestId"])
        return reply["HTTPStatusCode"]

    return {
        "iam": status("iam", "list_users", region_name=""),
        "sts": status("sts", "get_caller_identity", region_name=""),
        "s3": status("s3", "list_buckets"),
    }


def form(s3):
    """A browser's form, signed by the session."""
    import urllib.request
    import uuid

    post = s3.generate_presigned_post("boto-iam", "by-form")
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in post["fields"].items()]
    parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nby a form\r\n--{boundary}--\r\n')
    request = urllib.request.Request(
        post["url"],
        data="".join(parts).encode(),
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    status = urllib.request.urlopen(request).status
    return [status, s3.get_object(Bucket="boto-iam", Key="by-form")["Body"].read().decode()]


print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
