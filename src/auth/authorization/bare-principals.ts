/**
 * Access keys and user names that a policy gives as a Principal. They look like account ids, so such a statement would allow no
 * caller, or an account that is created later. The public service refuses them too.
 */
import { findNamed } from '../../domain/iam/entities.ts';
import { fail } from '../../errors/refusal.ts';
import type { Credentials } from '../../ports/crypto/credentials.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import { userArn } from '../../protocol/request/arns.ts';
import type { PolicyDocument } from '../policy/document/document.ts';
import { callerOf } from '../session/principal.ts';

interface Ctx {
  readonly metadata: MetadataStore;
  readonly credentials: Credentials;
}

/** The shape of IAM's access keys and unique ids. */
const idPattern = /^(?:AKIA|ASIA|AIDA|AROA|AGPA|ANPA)[A-Z0-9]{16}$/;
/** The largest number of names to look up, because each costs reads. Further names count as accounts. */
const lookedUpMax = 100;

const refused = (name: string, is: string, arn: string) =>
  fail(
    'MalformedPolicy',
    `Invalid principal in policy: "${name}" is ${is}, and not an account. Write the ARN of the user or role, such as {"AWS": "${arn}"}.`,
  );

/** @throws MalformedPolicy for a name that is an access key, or a user of `account`, and not a known account */
export async function refuseBarePrincipals(
  { metadata, credentials }: Ctx,
  account: string,
  document: PolicyDocument,
): Promise<void> {
  const names = new Set(document.statements.flatMap(({ bareNames }) => bareNames));
  let lookedUp = 0;
  for (const name of names) {
    if ((await credentials.account({ owner: name })) !== undefined) continue;
    if (idPattern.test(name))
      throw refused(name, 'an access key or a unique id', userArn(account, { name: 'alice' }));
    lookedUp += 1;
    if (lookedUp > lookedUpMax) return;
    // Access keys of other accounts are not reported, because that would reveal that they exist.
    const key = await credentials.find(name);
    if (key?.owner === account) throw refused(name, 'an access key', callerOf(key).arn);
    const user = await findNamed({ metadata }, account, { kind: 'user', name });
    if (user !== undefined) throw refused(name, 'the name of a user', userArn(account, user));
  }
}
