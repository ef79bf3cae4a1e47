/**
 * Writes messages into a table of PostgreSQL. A batch is one statement, which applies as a whole. Mode `insert` keeps each event once, by
 * its id; mode `upsert` keeps the last event of each object.
 */

import { loadOptional } from '../../base/optional-packages.ts';
import type { Delivery, EventSink, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { describe, type Place, type Session, sessionSink, sessionTurnsMax } from './session-sink.ts';
import type { SinkOptions } from './sink-options.ts';

const columns = 'event_id, subject, content_type, body';
/** One parameter, in JSON: arrays would need the types that `fetch_types` reads. */
const rows = `SELECT e ->> 'id', e ->> 'subject', e ->> 'contentType', (e ->> 'body')::json
  FROM json_array_elements($1::text::json) WITH ORDINALITY AS sent (e, place) ORDER BY place`;

export async function openPostgres(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const { default: postgres } = await loadOptional(['postgres'], () => import('postgres'));
  const isUpsert = target.mode === 'upsert';
  const name = (target.table ?? '')
    .split('.')
    .map((part) => `"${part}"`)
    .join('.');
  const unique = isUpsert ? 'subject' : 'event_id';
  const create = `CREATE TABLE IF NOT EXISTS ${name} (position bigint GENERATED ALWAYS AS IDENTITY, event_id text NOT NULL,
    subject text NOT NULL, content_type text NOT NULL, body json NOT NULL, received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (${unique}))`;
  const conflict = isUpsert
    ? 'UPDATE SET event_id = excluded.event_id, content_type = excluded.content_type, body = excluded.body, received_at = now()'
    : 'NOTHING';
  const write = `INSERT INTO ${name} (${columns}) ${rows} ON CONFLICT (${unique}) DO ${conflict}`;

  async function connect({ address, port, tls, timeoutMs }: Place): Promise<Session> {
    const client = postgres({
      host: address,
      port,
      database: decodeURIComponent(new URL(target.url).pathname.slice(1)) || 'postgres',
      ...(target.username === undefined ? {} : { username: target.username }),
      password: target.password ?? '',
      ssl: tls === undefined ? false : (tls as object),
      // Each delivery uses one at a time.
      max: sessionTurnsMax,
      // The library handles no error of the query for them: it would be an unhandled rejection.
      fetch_types: false,
      connect_timeout: Math.ceil(timeoutMs / 1000),
      connection: { application_name: 'sluice', statement_timeout: timeoutMs },
      onnotice: () => {},
    });
    const writeTogether = async (messages: readonly SinkMessage[]): Promise<void> => {
      const sent = isUpsert ? lastOfSubjects(messages) : messages;
      await client.unsafe(write, [JSON.stringify(sent)], { prepare: true });
    };
    const session: Session = {
      async send(messages): Promise<Delivery> {
        try {
          await writeTogether(messages);
          return { delivered: messages.length };
        } catch (cause) {
          if (!isAboutRow(cause)) return reportError(cause);
        }
        // One of them cannot be stored here: find it, so that it does not hold up the others.
        for (const [delivered, message] of messages.entries())
          try {
            await writeTogether([message]);
          } catch (cause) {
            if (!isAboutRow(cause)) return { ...reportError(cause), delivered };
            const kind = isDataException(cause) ? 'refused' : 'failed';
            return { delivered, failure: { kind, error: `the sink answered ${describe(cause)}` } };
          }
        return { delivered: messages.length };
      },
      close: () => client.end({ timeout: 0 }),
    };
    try {
      // Ask first, because a user who may only insert may not create, even where the table is there.
      const [found] = await client.unsafe('SELECT to_regclass($1) IS NOT NULL AS here', [name]);
      if (found?.['here'] !== true) await client.unsafe(create);
    } catch (error) {
      await session.close();
      throw error;
    }
    return session;
  }

  return sessionSink(target, options, { port: 5432, tlsSchemes: ['postgres+tls'], connect });
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const isSqlState = (code: unknown): code is string => typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code);
const stateCode = (cause: unknown): unknown => ((cause ?? {}) as { readonly code?: unknown }).code;

/** Class 22: a value does not fit, such as a character that the encoding of the database does not have. */
const isDataException = (cause: unknown): boolean => {
  const code = stateCode(cause);
  return isSqlState(code) && code.startsWith('22');
};

/** Also a constraint of the table (23, 44), a trigger (09, P0), or a limit of the server (54). */
const isAboutRow = (cause: unknown): boolean => {
  const code = stateCode(cause);
  return isSqlState(code) && /^(22|23|44|09|P0|54)/.test(code);
};

/** Other answers of the server are about the table or the user. @throws the cause where the connection has failed */
function reportError(cause: unknown): Delivery {
  if (!isSqlState(stateCode(cause))) throw cause;
  return {
    delivered: 0,
    failure: { kind: 'unavailable', error: `the sink cannot be used: ${describe(cause)}` },
  };
}

/** A statement may write a row once. */
const lastOfSubjects = (messages: readonly SinkMessage[]): readonly SinkMessage[] => [
  ...new Map(messages.map((message) => [message.subject, message])).values(),
];
