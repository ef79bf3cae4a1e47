/** docs/recovery.md as data: each section's symptom, commands and expected output. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface RecoverySection {
  readonly title: string;
  /** Lines in which `…` stands for any text. */
  readonly symptom: readonly string[];
  readonly commands: readonly string[];
  readonly result: readonly string[];
}

const page = join(import.meta.dirname, '../../docs/recovery.md');

/** Every section with commands, in the order of the page. */
export function recoverySections(): readonly RecoverySection[] {
  const [, ...sections] = readFileSync(page, 'utf8').split(/^### /m);
  return sections.flatMap((text) => {
    const title = text.slice(0, text.indexOf('\n'));
    const commands = linesOf(text, 'sh');
    if (commands.length === 0) return [];
    return [
      { title, commands, symptom: linesOf(text, 'text symptom'), result: linesOf(text, 'text result') },
    ];
  });
}

/** The lines of the section's blocks of one kind. */
const linesOf = (text: string, kind: string): readonly string[] =>
  [...text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)]
    .filter(([, info]) => info === kind)
    .flatMap(([, , body = '']) => body.split('\n').filter((line) => line !== ''));

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** A line of the page as a pattern for a program's output. */
export const patternOf = (line: string): RegExp =>
  new RegExp(line.split('…').map(literal).join('[^\\n]*'), 'i');
