/**
 * A root file system of its own for the tests of packages, without a container engine: this machine's, read-only, below
 * a directory that takes every change. Commands run in a mount namespace, changed to that root; network and processes
 * are those of this machine.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** A file that only a machine's root has. */
const mark = '.overlay-machine';

/** Makes the mounts, enters the root and becomes the command. Positional: lower, upper, work, root, directory, user, then the command. */
const enter = [
  'lower=$1 upper=$2 work=$3 root=$4 directory=$5 user=$6; shift 6',
  'mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work" "$root"',
  'for each in dev proc; do mount --rbind "/$each" "$root/$each"; done',
  'exec chroot --userspec="$user" "$root" /bin/sh -c \'cd "$0" && exec "$@"\' "$directory" "$@"',
].join('\n');

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Default: `/`. */
  readonly cwd?: string;
  /** `user:group`. Default: root. */
  readonly user?: string;
}

export interface Finished {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Why this machine cannot have one; undefined where it can. */
export function noOverlayMachine(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can mount an overlay';
  const machine = new OverlayMachine();
  try {
    const { status, stderr } = machine.run(['true']);
    return status === 0 ? undefined : `no overlay can be mounted: ${stderr.trim()}`;
  } finally {
    machine.remove();
  }
}

export class OverlayMachine {
  readonly #top = mkdtempSync(join(tmpdir(), 'sluice-machine-'));

  /** @param like a machine whose changes this one begins with */
  constructor(like?: OverlayMachine) {
    for (const name of ['changes', 'work', 'root']) mkdirSync(join(this.#top, name));
    // Layers must not contain each other, and "/" contains every directory of changes.
    if (like !== undefined) execFileSync('cp', ['-aT', like.changes, this.changes]);
    writeFileSync(join(this.changes, mark), '');
  }

  /** The directory with the files that differ from the machine below. */
  get changes(): string {
    return join(this.#top, 'changes');
  }

  #arguments(command: readonly string[], { cwd = '/', user = 'root:root' }: RunOptions): readonly string[] {
    const places = ['work', 'root'].map((name) => join(this.#top, name));
    return ['--mount', 'sh', '-ec', enter, 'enter', '/', this.changes, ...places, cwd, user, ...command];
  }

  /** The environment is that of the test for root, such as proxies, and only what is named for others. */
  #environment({ env = {}, user }: RunOptions): NodeJS.ProcessEnv {
    const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    return user === undefined ? { ...process.env, NODE_OPTIONS: '', PATH, ...env } : { PATH, ...env };
  }

  /** Runs a command to its end. Only one command of a machine may run at a time; see `inside` for further ones. */
  run(command: readonly string[], options: RunOptions = {}): Finished {
    const { status, stdout, stderr } = spawnSync('unshare', this.#arguments(command, options), {
      env: this.#environment(options),
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    });
    return { status, stdout, stderr };
  }

  /** Starts a command that runs until it is stopped; resolves when it is in its root. */
  async start(command: readonly string[], options: RunOptions = {}): Promise<ChildProcess> {
    const child = spawn('unshare', this.#arguments(command, options), {
      env: this.#environment(options),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    while (child.exitCode === null && !existsSync(`/proc/${child.pid}/root/${mark}`)) await pause(10);
    return child;
  }

  /** Runs a command among the mounts of one that was started, as `docker exec` does. */
  inside(started: ChildProcess, command: readonly string[], options: RunOptions = {}): Finished {
    const target = ['--target', String(started.pid), '--mount', '--root'];
    const asUser = ['chroot', `--userspec=${options.user ?? 'root:root'}`, '/'];
    const inDirectory = ['/bin/sh', '-c', 'cd "$0" && exec "$@"', options.cwd ?? '/', ...command];
    const { status, stdout, stderr } = spawnSync('nsenter', [...target, ...asUser, ...inDirectory], {
      env: this.#environment(options),
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  }

  remove(): void {
    rmSync(this.#top, { recursive: true, force: true });
  }
}
