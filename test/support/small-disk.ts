/**
 * A real file system of a few MiB for a server: an ext4 image that only the server's mount namespace sees, and that outlives
 * the server. Needs root, `unshare` and loop devices.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type StartOptions, startServer, type TestServer } from './server.ts';

const run = (command: string, ...args: readonly string[]): boolean =>
  spawnSync(command, args, { stdio: 'ignore' }).status === 0;

export interface SmallDisk {
  readonly image: string;
  /** The mount point of the server. */
  readonly directory: string;
}

export class SmallDisks implements Disposable {
  readonly own = mkdtempSync(join(tmpdir(), 'sluice-disk-'));
  readonly #disks: SmallDisk[] = [];

  /** @param options for mkfs.ext4, such as `-N` and a number of inodes */
  add(name: string, mebibytes: number, ...options: readonly string[]): SmallDisk {
    const disk = { image: join(this.own, `${name}.img`), directory: join(this.own, name) };
    mkdirSync(disk.directory);
    const made =
      run('truncate', '-s', `${mebibytes}M`, disk.image) &&
      // Reserve no blocks for root, because the server runs as root here.
      run('mkfs.ext4', '-q', '-F', '-m', '0', '-O', '^has_journal', ...options, disk.image);
    if (!made) throw new Error(`${disk.image} cannot be made`);
    this.#disks.push(disk);
    return disk;
  }

  start(options: StartOptions): Promise<TestServer> {
    const mounts = this.#disks.map(
      ({ image, directory }) => `mount -o loop,errors=remount-ro ${image} ${directory}`,
    );
    const script = [...mounts, `exec ${process.execPath} "$0" "$@"`].join(' && ');
    return startServer({ ...options, runtime: ['unshare', '-m', 'sh', '-c', script] });
  }

  [Symbol.dispose](): void {
    rmSync(this.own, { recursive: true, force: true });
  }
}

/** Runs a shell command in the server's mount namespace. */
export const besideServer = ({ process: { pid } }: TestServer, script: string): boolean =>
  run('nsenter', '-t', String(pid), '-m', 'sh', '-c', script);

/** Whether this machine lets a test mount file systems. On CI it must, so that the tests are not skipped unnoticed. */
export function canMount(): boolean {
  if (process.env['CI'] === 'true') return true;
  using disks = new SmallDisks();
  const { image, directory } = disks.add('trial', 4);
  return run('unshare', '-m', 'mount', '-o', 'loop', image, directory);
}
