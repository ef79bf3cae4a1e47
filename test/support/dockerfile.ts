/**
 * Runs the steps of a Dockerfile on overlay machines: this machine's Debian and Node stand for the base image, which is
 * Debian and Node too.
 */
import { globSync, readFileSync, statSync } from 'node:fs';
import { basename, join, posix } from 'node:path';
import { OverlayMachine } from './overlay-machine.ts';

export interface Image {
  readonly machine: OverlayMachine;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly workdir: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly healthcheck: readonly string[];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface Instruction {
  readonly name: string;
  readonly rest: string;
}

export function readDockerfile(text: string): readonly Instruction[] {
  const lines = text
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n');
  return lines
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', rest = ''] = /^(\S+)\s+(.*)$/.exec(line.trim()) ?? [];
      return { name, rest };
    });
}

/** The node image has Node, npm below /usr/local, and a user `node` with the id 1000. */
function baseMachine(): OverlayMachine {
  const machine = new OverlayMachine();
  run(machine, `cp '${process.execPath}' /usr/local/bin/node`, {});
  run(machine, 'useradd --uid 1000 --non-unique --user-group --create-home node', {});
  return machine;
}

function run(machine: OverlayMachine, command: string, options: Parameters<OverlayMachine['run']>[1]): void {
  const { status, stdout, stderr } = machine.run(['/bin/sh', '-ec', command], options);
  if (status !== 0) throw new Error(`exit code ${status} of RUN ${command}\n${stdout}${stderr}`);
}

export interface BuildOptions {
  /** The directory from which COPY takes files. */
  readonly context: string;
  /** Directories of the image that exist already, by the RUN instruction that would make them: a cache of layers. */
  readonly cached?: Readonly<Record<string, { readonly at: string; readonly from: string }>>;
}

export interface Built extends Image {
  /** The machine of an earlier stage. */
  stage(name: string): OverlayMachine;
  /** Removes the machines of all stages. */
  remove(): void;
}

/** Builds every stage and returns the last one. */
export function buildImage(dockerfile: string, { context, cached = {} }: BuildOptions): Built {
  const stages = new Map<string, Image>();
  const machines: OverlayMachine[] = [];
  let image: Mutable<Image> | undefined;
  for (const { name, rest } of readDockerfile(readFileSync(dockerfile, 'utf8'))) {
    if (name === 'FROM') {
      const machine = baseMachine();
      machines.push(machine);
      image = { machine, env: {}, user: 'root', workdir: '/', entrypoint: [], cmd: [], healthcheck: [] };
      stages.set(/ AS (\S+)$/.exec(rest)?.[1] ?? '', image);
      continue;
    }
    if (image === undefined) throw new Error(`${name} stands before FROM`);
    const { machine, workdir } = image;
    if (name === 'WORKDIR') {
      image.workdir = rest;
      run(machine, `mkdir -p '${rest}'`, {});
    } else if (name === 'COPY') {
      const [, stage] = /^--from=(\S+) /.exec(rest) ?? [];
      const paths = rest.replace(/^--from=\S+ /, '').split(/\s+/);
      const target = posix.resolve(workdir, paths.at(-1) ?? '');
      const from = stage === undefined ? context : (stages.get(stage)?.machine.changes ?? '');
      const found = paths.slice(0, -1).flatMap((path) => globSync(join(from, path)));
      if (found.length === 0) throw new Error(`COPY ${rest}: there is no such file`);
      for (const path of found) {
        const isInto = paths.at(-1)?.endsWith('/') === true && statSync(path).isFile();
        const to = isInto ? posix.join(target, basename(path)) : target;
        run(machine, `mkdir -p '${posix.dirname(to)}' && cp -T --recursive '${path}' '${to}'`, {});
      }
    } else if (name === 'RUN') {
      const layer = cached[rest];
      if (layer === undefined) run(machine, rest, { cwd: workdir, env: image.env });
      else run(machine, `ln -s '${layer.from}' '${posix.join(workdir, layer.at)}'`, {});
    } else if (name === 'ENV') {
      image.env = {
        ...image.env,
        ...Object.fromEntries(rest.split(/\s+/).map((pair) => pair.split(/=(.*)/s))),
      };
    } else if (name === 'USER') image.user = rest;
    else if (name === 'ENTRYPOINT') image.entrypoint = JSON.parse(rest);
    else if (name === 'CMD') image.cmd = JSON.parse(rest);
    else if (name === 'HEALTHCHECK') image.healthcheck = JSON.parse(rest.slice(rest.indexOf(' CMD ') + 5));
    else if (!['VOLUME', 'EXPOSE', 'STOPSIGNAL'].includes(name)) throw new Error(`${name} is not known here`);
  }
  if (image === undefined) throw new Error(`${dockerfile} has no FROM`);
  return {
    ...image,
    stage: (name) => stages.get(name)?.machine ?? image.machine,
    remove: () => {
      for (const machine of machines) machine.remove();
    },
  };
}
