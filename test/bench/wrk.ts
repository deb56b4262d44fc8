import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { LOAD_CORE, pinned } from './pinned.ts'

const SCRIPT = fileURLToPath(new URL('wrk-report.lua', import.meta.url))

export interface Load {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly connections: number
  readonly seconds: number
  /** File of keys to use in turn, one per line. */
  readonly keysFile?: string
  /** Index of the first key. */
  readonly firstKey?: number
  /** Mean pause of each connection between requests, which keeps the load below the maximum. */
  readonly delayMs?: number
}

export interface LoadResult {
  readonly requests: number
  readonly durationUs: number
  readonly p50Us: number
  readonly p99Us: number
  /** Responses with status 400 and above. */
  readonly refused: number
  /** Requests without a response. */
  readonly broken: number
}

export async function runWrk(load: Load): Promise<LoadResult> {
  const headers = Object.entries(load.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const size = ['-t1', `-c${load.connections}`, `-d${load.seconds}s`, '--timeout', '10s']
  const [program, words] = pinned(LOAD_CORE, 'wrk', [...size, '-s', SCRIPT, ...headers, load.url])
  const own = {
    ...(load.keysFile === undefined ? {} : { BENCH_KEYS_FILE: load.keysFile }),
    ...(load.firstKey === undefined ? {} : { BENCH_FIRST_KEY: String(load.firstKey) }),
    ...(load.delayMs === undefined ? {} : { BENCH_DELAY_MS: String(Math.round(load.delayMs)) }),
  }
  const child = spawn(program, words, {
    env: { PATH: process.env['PATH'], ...own },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  const line = /^RESULT (.*)$/m.exec(output)?.[1]
  if (line === undefined) throw new Error(`wrk printed no result: ${errors}${output}`)
  // Printed by wrk-report.lua.
  return JSON.parse(line) as LoadResult
}
