import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ENTRY } from './postern-process.ts'

const SIZE_BYTES = 1024 * 1024

/** A disk that can be full, as real as this machine allows. */
export interface SmallDisk {
  readonly kind: string
  readonly directory: string
  /** How a program is started that is to feel it. */
  readonly launcher: readonly string[]
  /** @param pid of the program */
  fill(pid: number): void
  free(pid: number): void
  remove(): void
}

/** A file system of a megabyte where one may be mounted; else a bound on the size of files, which any user may set. */
export function makeSmallDisk(): SmallDisk {
  const directory = mkdtempSync(join(tmpdir(), 'postern-disk-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_BYTES}`, 'none', directory])
  return mounted.status === 0 ? mountedDisk(directory) : boundedFiles(directory)
}

function mountedDisk(directory: string): SmallDisk {
  const filler = join(directory, 'filler')
  return {
    kind: 'a mounted disk of 1 MiB',
    directory,
    launcher: [process.execPath, ENTRY],
    fill: () => {
      try {
        writeFileSync(filler, Buffer.alloc(SIZE_BYTES))
      } catch {
        // As much as fits.
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
    kind: 'a bound on the size of files',
    directory,
    launcher: [process.execPath, ENTRY],
    fill: pid => bound(pid, '4096'),
    free: pid => bound(pid, 'unlimited'),
    remove: () => rmSync(directory, { recursive: true }),
  }
}
