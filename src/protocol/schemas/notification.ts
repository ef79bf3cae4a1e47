/**
 * The body of the notification operations:
 * https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketNotificationConfiguration.html
 */
import { documented, element, many, optional, text, token } from '../formats/codec.ts';
import { configuration } from './common.ts';

const configurationsMax = 100;

/** The names are `prefix` and `suffix`, in any case. */
const filterRule = element({ Name: token, Value: documented(text, { maxLength: 1024 }) });

const filter = element({ S3Key: optional(element({ FilterRule: many(filterRule, { max: 10 }) })) });

const common = {
  Id: optional(documented(token, { maxLength: 255 })),
  /** Such as `s3:ObjectCreated:Put`, or `s3:ObjectCreated:*`. */
  Event: many(token, { min: 1, max: 100 }),
  Filter: optional(filter),
};

const topic = element({ ...common, Topic: token });

const queue = element({ ...common, Queue: token });

/** InvocationRole is of the first version, and had no effect since. */
const cloudFunction = element({ ...common, CloudFunction: token, InvocationRole: optional(token) });

/** Root `NotificationConfiguration`; without an element inside it turns notifications off. */
export const notificationConfiguration = configuration(
  'notification',
  'NotificationConfiguration',
  element({
    TopicConfiguration: many(topic, { max: configurationsMax }),
    QueueConfiguration: many(queue, { max: configurationsMax }),
    CloudFunctionConfiguration: many(cloudFunction, { max: configurationsMax }),
    EventBridgeConfiguration: optional(element({})),
  }),
);
