import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Above the last port that `fetch` refuses (10080, Fetch standard, "port blocking"). */
const FIRST_PORT = 10_081
/** Below Linux's ephemeral range, whose ports other programs would take in between. */
const AFTER_LAST_PORT = 32_000
const TRIES = 50

/** Finds a port of 127.0.0.1 that is currently free. */
export async function freePort(): Promise<number> {
  for (let tried = 0; tried < TRIES; tried++) {
    const port = randomInt(FIRST_PORT, AFTER_LAST_PORT)
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
