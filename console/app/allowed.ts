/** What policy allows the caller: asked once for all actions of a page. */
import { useQuery } from '@tanstack/react-query';
import { type AdminOperationName, Refused } from './client.ts';
import { read } from './reads.ts';

/** An operation of the operator API, or an action on a bucket or object. */
export type Question =
  | AdminOperationName
  | {
      readonly action: string;
      readonly bucket?: string;
      readonly key?: string;
      readonly path?: string;
      /** The ARN that an action of IAM is about. */
      readonly resource?: string;
    };

/** The question whether an operation of the operator API is allowed on a bucket. */
export const onBucket = (name: AdminOperationName, bucket: string) => ({ action: `admin:${name}`, bucket });

/** Undefined while it is not known: do not offer the action yet, and do not say that it is forbidden. */
export type Allowed = (question: Question) => boolean | undefined;

const toAsked = (question: Question) =>
  typeof question === 'string' ? { action: `admin:${question}` } : { ...question };

export function useAllowed(questions: readonly Question[]): Allowed {
  const asked = questions.map(toAsked);
  const { data } = useQuery({
    queryKey: ['CheckPermissions', asked],
    queryFn: ({ signal }) => read('CheckPermissions', { body: { questions: asked }, signal }),
    staleTime: 60_000,
    // Retry without end, because without the answer the page offers nothing and has no button to ask again.
    retry: (_, error) => !(error instanceof Refused && error.status < 500),
    enabled: asked.length > 0,
  });
  return (question) => {
    const key = JSON.stringify(toAsked(question));
    const index = asked.findIndex((each) => JSON.stringify(each) === key);
    return data?.answers[index]?.allowed;
  };
}
