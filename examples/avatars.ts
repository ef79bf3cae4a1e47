/** A part of an application that stores pictures in S3: what the examples of tests test. */
import { GetObjectCommand, NoSuchKey, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';

const at = (user: string) => ({ Bucket: 'avatars', Key: `${user}.png` });

export async function saveAvatar(
  client: S3Client,
  user: string,
  picture: string | Uint8Array,
): Promise<void> {
  await client.send(new PutObjectCommand({ ...at(user), Body: picture, ContentType: 'image/png' }));
}

/** Undefined where the user has none. */
export async function findAvatar(client: S3Client, user: string): Promise<string | undefined> {
  try {
    return await (await client.send(new GetObjectCommand(at(user)))).Body?.transformToString();
  } catch (error) {
    if (error instanceof NoSuchKey) return undefined;
    throw error;
  }
}

/** A link to the picture, for an hour. */
export const linkToAvatar = (client: S3Client, user: string): Promise<string> =>
  getSignedUrl(client, new GetObjectCommand(at(user)), { expiresIn: 3600 });
