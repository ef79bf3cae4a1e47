/** Facts of one thing: a list of names and values; a fact without a value is left out. */
import type { ComponentChildren } from 'preact';

export type Fact = readonly [name: string, value: ComponentChildren];

const isMissing = (value: ComponentChildren): boolean =>
  value === undefined || value === null || value === false || value === '';

export const Facts = ({ facts }: { readonly facts: readonly Fact[] }) => (
  <dl class="facts">
    {facts
      .filter(([, value]) => !isMissing(value))
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd dir="auto">{value}</dd>
        </div>
      ))}
  </dl>
);
