import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROGRAM } from './postern-process.ts'

const MIB = 1024 * 1024

/** A disk that can fill up, as real as this machine allows. */
export interface SmallDisk {
  readonly kind: string
  readonly directory: string
  /** Command line prefix of a program that writes to it. */
  readonly launcher: readonly string[]
  /** @param pid of the program */
  fill(pid: number): void
  free(pid: number): void
  remove(): void
}

/** A file system of 1 MiB, or more, if mounts are allowed; otherwise a limit on file sizes, which needs no rights. */
export function makeSmallDisk(mebibytes = 1): SmallDisk {
  const directory = mkdtempSync(join(tmpdir(), 'postern-disk-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes * MIB}`, 'none', directory])
  return mounted.status === 0 ? mountedDisk(directory, mebibytes) : boundedFiles(directory)
}

function mountedDisk(directory: string, mebibytes: number): SmallDisk {
  const filler = join(directory, 'filler')
  return {
    kind: `a mounted disk of ${mebibytes} MiB`,
    directory,
    launcher: [process.execPath, ...PROGRAM],
    fill: () => {
      try {
        writeFileSync(filler, Buffer.alloc(mebibytes * MIB))
      } catch {
        // Fills all free space.
      }
    },
    free: () => rmSync(filler),
    remove: () => {
      execFileSync('umount', [directory])
      rmSync(directory, { recursive: true })
    },
  }
}

function boundedFiles(directory: string): SmallDisk {
  const bound = (pid: number, size: string) =>
    execFileSync('prlimit', ['--pid', String(pid), `--fsize=${size}:unlimited`])
  return {
    kind: 'a limit on file sizes',
    directory,
    launcher: [process.execPath, ...PROGRAM],
    fill: pid => bound(pid, '4096'),
    free: pid => bound(pid, 'unlimited'),
    remove: () => rmSync(directory, { recursive: true }),
  }
}
