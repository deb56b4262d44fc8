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
  /** Keys to go round, one a line. */
  readonly keysFile?: string
  /** Number of the one to begin with. */
  readonly firstKey?: number
  /** Mean pause of each connection between two requests, so that the load stays below what can be served. */
  readonly delayMs?: number
}

export interface LoadResult {
  readonly requests: number
  readonly durationUs: number
  readonly p50Us: number
  readonly p99Us: number
  /** Answers of 400 and above. */
  readonly refused: number
  /** Requests that got none. */
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
  const [output, complaint] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  const line = /^RESULT (.*)$/m.exec(output)?.[1]
  if (line === undefined) throw new Error(`wrk gave no result: ${complaint}${output}`)
  // Printed by the script beside this file.
  return JSON.parse(line) as LoadResult
}
