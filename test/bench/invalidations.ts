import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { digestKey } from '../../src/domain/key/secret.ts'
import { writeKeys } from './keys.ts'
import { measureOnce } from './measure.ts'
import { LOAD_CORE, pinned } from './pinned.ts'
import type { Filled } from './scale.ts'
import { median } from './statistics.ts'
import type { BenchWorld } from './world.ts'

const PER_SECOND = 50_000
const TURNS = 5
const SECONDS = 3
/** Share of the keys that requests use; the others are invalidated. */
const ASKED = 0.01
const PUBLISHER = fileURLToPath(new URL('publish-changes.ts', import.meta.url))

/** Figures of a gateway at half of its maximum request rate. */
export interface Disturbance {
  readonly cpuUs: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly longestPauseMs: number
  /** Of the event loop: how much changes delay requests, independent of load on other cores. */
  readonly p99DelayMs: number
  /** Changes applied per second. */
  readonly invalidationsPerSecond: number
}

export interface Invalidations {
  readonly requestsPerSecond: number
  readonly without: Disturbance
  readonly with: Disturbance
}

/** Requests use some keys, while the records of all others are invalidated one after the other through Redis. */
export async function measureInvalidations(
  world: BenchWorld,
  filled: Filled,
  keys: readonly string[],
): Promise<Invalidations> {
  const asked = Math.max(1, Math.floor(keys.length * ASKED))
  const keysFile = writeKeys(join(world.directory, 'keys-asked'), keys.slice(0, asked))
  const digests = join(world.directory, 'digests')
  writeFileSync(digests, keys.slice(asked).map(digestKey).join('\n'))
  const contestant = { ...filled.contestant, keysFile }
  const { perSecond } = await measureOnce(contestant, SECONDS)
  const turn = () => disturbanceOf(filled, contestant, perSecond / 2)
  const calm: Disturbance[] = []
  const busy: Disturbance[] = []
  for (let number = 0; number < TURNS; number++) {
    calm.push(await turn())
    const stop = await publish(world, digests)
    busy.push(await turn())
    await stop()
  }
  return { requestsPerSecond: perSecond / 2, without: typical(calm), with: typical(busy) }
}

async function disturbanceOf(
  { probe, opsPort }: Filled,
  contestant: Filled['contestant'],
  requestsPerSecond: number,
): Promise<Disturbance> {
  const appliedBefore = await invalidationsOf(opsPort)
  const beganMs = performance.now()
  await probe()
  const sample = await measureOnce(contestant, SECONDS, requestsPerSecond)
  const { longestPauseMs, p99DelayMs } = await probe()
  const seconds = (performance.now() - beganMs) / 1000
  const applied = (await invalidationsOf(opsPort)) - appliedBefore
  return {
    cpuUs: sample.cpuUs,
    p50Ms: sample.p50Us / 1000,
    p99Ms: sample.p99Us / 1000,
    longestPauseMs,
    p99DelayMs,
    invalidationsPerSecond: applied / seconds,
  }
}

function typical(turns: readonly Disturbance[]): Disturbance {
  const middle = (figure: keyof Disturbance) => median(turns.map(turn => turn[figure]))
  return {
    cpuUs: middle('cpuUs'),
    p50Ms: middle('p50Ms'),
    p99Ms: middle('p99Ms'),
    longestPauseMs: middle('longestPauseMs'),
    p99DelayMs: middle('p99DelayMs'),
    invalidationsPerSecond: middle('invalidationsPerSecond'),
  }
}

async function invalidationsOf(opsPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text()
  const counts = text.matchAll(/^postern_key_invalidations_total\{[^}]*\} (\d+)$/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** @returns a function that stops publishing */
async function publish(
  { redisPort, signingSecret }: BenchWorld,
  digests: string,
): Promise<() => Promise<void>> {
  const secret = signingSecret.toString('base64')
  const words = [PUBLISHER, String(redisPort), digests, String(PER_SECOND), secret]
  const child = spawn(...pinned(LOAD_CORE, process.execPath, words), { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  }
}
