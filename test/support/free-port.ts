import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Above the last port that `fetch` refuses (10080, Fetch standard, "port blocking"). */
const FIRST_PORT = 10_081
/** Below Linux's ephemeral range, whose ports other programs would take in between. */
const AFTER_LAST_PORT = 32_000
const TRIES = 50
/**
 * Between a port being found and its server listening, nothing else may find it: each worker of Vitest has every 64th port, and takes one
 * after the other.
 */
const LANES = 64
const LANE = Number(process.env['VITEST_POOL_ID'] ?? process.pid) % LANES
const PORTS_OF_LANE = Math.floor((AFTER_LAST_PORT - FIRST_PORT) / LANES)

let next = randomInt(PORTS_OF_LANE)

/** Finds a port of 127.0.0.1 that is currently free. */
export async function freePort(): Promise<number> {
  for (let tried = 0; tried < TRIES; tried++) {
    const port = FIRST_PORT + LANES * next + LANE
    next = (next + 1) % PORTS_OF_LANE
    if (await isFree(port)) return port
  }
  throw new Error(`None of ${TRIES} ports from ${FIRST_PORT} to ${AFTER_LAST_PORT - 1} was free`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false // Another program uses it.
  }
  await new Promise(resolve => server.close(resolve))
  return true
}
