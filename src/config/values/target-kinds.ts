/** What the kinds of event targets are reached by, and the fields that each takes beside those of all kinds. */
import type { SinkTarget } from '../../ports/event-sink.ts';

interface TargetKind {
  /** The schemes of its URL. */
  readonly schemes: readonly string[];
  readonly needs: readonly (keyof SinkTarget)[];
  readonly takes: readonly (keyof SinkTarget)[];
  /** The values of `mode`, the default first. */
  readonly modes?: readonly string[];
}

const password = ['username', 'password'] as const;
const tls = ['caFile', 'certFile', 'keyFile'] as const;

export const targetKinds: Readonly<Record<SinkTarget['type'], TargetKind>> = {
  webhook: { schemes: ['http', 'https'], needs: [], takes: [...password, ...tls, 'token', 'secret'] },
  nats: { schemes: ['nats', 'tls'], needs: ['subject'], takes: [...password, ...tls, 'token'] },
  redis: {
    schemes: ['redis', 'rediss'],
    needs: ['key'],
    takes: [...password, ...tls, 'mode', 'maxLength'],
    modes: ['stream', 'list'],
  },
  postgres: {
    schemes: ['postgres', 'postgresql', 'postgres+tls'],
    needs: ['table'],
    takes: [...password, ...tls, 'mode'],
    modes: ['insert', 'upsert'],
  },
  mqtt: { schemes: ['mqtt', 'mqtts'], needs: ['topic'], takes: [...password, ...tls] },
  amqp: { schemes: ['amqp', 'amqps'], needs: ['routingKey'], takes: [...password, ...tls, 'exchange'] },
  sqs: { schemes: ['http', 'https'], needs: ['region', ...password], takes: [...tls] },
  kafka: {
    schemes: ['kafka', 'kafkas'],
    needs: ['topic'],
    takes: [...password, ...tls, 'brokers', 'mode'],
    modes: ['SCRAM-SHA-512', 'SCRAM-SHA-256', 'PLAIN'],
  },
};

const brokerList = /^[A-Za-z0-9.-]{1,253}:\d{1,5}(,[A-Za-z0-9.-]{1,253}:\d{1,5}){0,31}$/;
const tableName = /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/;

/** @returns what is wrong in the fields of an entry whose type is known; each continues the name of the entry */
export function kindFaults(type: SinkTarget['type'], entry: Readonly<Record<string, unknown>>): string[] {
  const { schemes, needs, takes, modes } = targetKinds[type];
  const faults: string[] = [];
  const { url, mode, maxLength, table, brokers } = entry;
  if (typeof url === 'string' && URL.canParse(url)) {
    const { protocol, username, password: inside, hostname } = new URL(url);
    if (!schemes.includes(protocol.slice(0, -1))) faults.push(`needs a url of ${schemes.join(' or ')}`);
    else if (hostname === '') faults.push('has a url without a host');
    if (username !== '' || inside !== '')
      faults.push('has a user name or password in its url: write username and password as fields');
  }
  for (const name of needs)
    if (entry[name] === undefined) faults.push(`is of type ${type} and needs ${name}`);
  const known: readonly string[] = [
    ...needs,
    ...takes,
    'id',
    'type',
    'url',
    'accounts',
    'envelope',
    'validate',
  ];
  for (const name of Object.keys(entry))
    if (!known.includes(name)) faults.push(`is of type ${type} and has an unknown field "${name}"`);
  if (modes !== undefined && mode !== undefined && !modes.some((each) => each === mode))
    faults.push(`has a mode that is not one of ${modes.join(', ')}`);
  if (maxLength !== undefined && !(Number.isSafeInteger(maxLength) && Number(maxLength) > 0))
    faults.push('has a maxLength that is not a positive number');
  if (brokers !== undefined && !brokerList.test(String(brokers)))
    faults.push('has brokers that are not a list such as kafka-2:9092,kafka-3:9092');
  if (type === 'postgres' && typeof table === 'string' && !tableName.test(table))
    faults.push('has a table that is not a name such as events or audit.events');
  return faults;
}
