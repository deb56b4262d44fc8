import { execFileSync, spawnSync } from 'node:child_process'
import { fetchRedis, PUBLISHED } from './fetch-redis.ts'
import { has, install, REDIS } from './tools.ts'

/** Names the server that the tests start: the path of a Redis or Valkey, or `valkey` for the one that is fetched. */
const CHOSEN = 'POSTERN_TEST_REDIS'
const FETCHED = 'valkey'
const PROBE_DEADLINE_MS = 10_000

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

/** A server that is to be had, or what to do where there is none. */
export type Found = { readonly program: string } | { readonly problem: string }

/** Finds a server once for a run, or fetches one. @returns what to do if there is none to be had */
export async function ensureRedis(): Promise<string | null> {
  const chosen = process.env[CHOSEN] ?? ''
  if (chosen === '' && has(REDIS)) return null
  const fetched = () => fetchRedis(PUBLISHED)
  const found = await findRedis(
    chosen,
    chosen === '' ? [fetched, installRedis] : [chosen === FETCHED ? fetched : () => chosen],
  )
  if ('problem' in found) return found.problem
  process.env[CHOSEN] = found.program
  return null
}

/** @param ways each returns the name of a program, and is tried if those before it failed */
export async function findRedis(
  chosen: string,
  ways: readonly (() => string | Promise<string>)[],
): Promise<Found> {
  const failures: string[] = []
  for (const way of ways) {
    try {
      const program = await way()
      execFileSync(program, ['--version'], { stdio: 'pipe' })
      return { program }
    } catch (error) {
      failures.push(reasonOf(error))
    }
  }
  const reasons = failures.join('; ')
  const problem =
    chosen === ''
      ? `The tests need a Redis and found none: ${byHand()} (tried without success: ${reasons})`
      : `The tests cannot start the server that ${CHOSEN}=${chosen} names: ${reasons}`
  return { problem }
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

/** @throws if it cannot be installed by this user */
export function installRedis(isRoot?: boolean): string {
  install(REDIS, isRoot)
  return REDIS.program
}
